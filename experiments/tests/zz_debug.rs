//! Debug.
use tollgate_core::messages::ledger::*;
use tollgate_experiments::regions::*;
#[test]
fn dbg() {
    let names = ["eu","sa","us","au","as","me"];
    let peaks = [0.8, 0.3, 1.2, 0.1, 0.5, 0.2f64];
    let quota=600u64; let day=240*60_000u64;
    let run_ms = 60*60_000u64;
    let plans = |r: usize| (0..144u64).map(|p| { let part=(p as f64+0.5)/144.0; let sun=(std::f64::consts::TAU*(part - r as f64/6.0)).cos().max(0.0);
        CallerPlan{counter:0,from_ms:day*p/144,until_ms:day*(p+1)/144,per_minute:(peaks[r]*(0.05+0.95*sun)*600.0).round() as u64}}).collect::<Vec<_>>();
    let regions = names.iter().enumerate().map(|(i,n)| RegionSettings{name:n,processes:1,store_clock:(0,if i%2==0 {200} else {-200}),drift_ppm_max:200,
        link:LinkFaults{delay_ms:if i==0{1}else{40},jitter_ms:if i==0{0}else{10},..Default::default()},faults:ProcessFaults::default(),callers:plans(i)}).collect();
    let terms=Terms{rule:"g".into(),generation:1,quota,window_ms:60_000,term_ms:60_000,key_fingerprint:42,floors:names.iter().map(|n|((*n).into(),6)).collect()};
    let s=RegionsSettings{seed:1,run_ms,tick_ms:1000,regions,coordinators:1,coordinator_faults:ProcessFaults::default(),counters:1,terms:vec![TermsChange{at_ms:0,terms}],calm_from_ms:u64::MAX};
    let o=RegionsWorld::new(s,None).run();
    let step: usize = std::env::var("STEP").ok().map_or(30,|s|s.parse().unwrap());
    let from: usize = std::env::var("FROM").ok().map_or(0,|s|s.parse().unwrap());
    let until: usize = std::env::var("UNTIL").ok().map_or(3600,|s|s.parse().unwrap());
    for sec in (from..until.min(o.budgets.len())).step_by(step) {
        let b=&o.budgets[sec];
        let ms=(sec as u64+1)*1000;
        let used: Vec<usize>=(0..6).map(|r| o.admitted[0].iter().filter(|(t,x)| *x==r && *t+60_000>ms && *t<=ms).count()).collect();
        let dem: Vec<usize>=(0..6).map(|r| o.calls[0].iter().filter(|(t,x)| *x==r && *t+60_000>ms && *t<=ms).count()).collect();
        println!("{sec} held {:?} sum {} limit {:?} used {:?} sum {} demand {:?}", b.iter().map(|b|b.held).collect::<Vec<_>>(), b.iter().map(|b|b.held).sum::<u64>(), b.iter().map(|b|b.limit).collect::<Vec<_>>(), used, used.iter().sum::<usize>(), dem);
    }
    if std::env::var("LOG").is_ok() { for (at,r) in &o.ledger { if *at>= from as u64*1000 && *at < until as u64*1000 { println!("{at} {:?}", match &r.entry { LedgerEntry::Terms(_)=>"terms".to_string(), LedgerEntry::Request(q)=>format!("request {} {}",q.region,q.wants), LedgerEntry::Grant{units,..}=>format!("grant {units}"), LedgerEntry::Renewal{wants,grant,..}=>format!("renew {:x} {wants}",grant.writer&0xffff), LedgerEntry::GiveBack{grant,keeps,..}=>format!("giveback {:x} keeps {keeps}",grant.writer&0xffff), e=>format!("{e:?}")}); } } }
}
