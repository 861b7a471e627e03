//! Help of `tollgate replay`: examples, formats, and what is done with odd lines.

pub(super) const EXAMPLES: &str = "\
Examples:
  tollgate replay /var/log/nginx/access.log --limit \"60/min per ip\"
  tollgate replay access.log.*.gz --rules rules.yaml --format json
  zcat old.gz | tollgate replay - --limit \"10/s per ip, endpoint\" --decisions decisions.jsonl
  tollgate replay access.log --show
  tollgate replay app.jsonl --json time=ts,ip=remote,api_key=headers.key --limit \"9/s per api_key\"
  tollgate replay access.log --client last-forwarded --limit \"60/min per ip\"
  tollgate replay access.log --limit \"60/min per ip\" --agents 5 --store-delay 2ms --signal-delay 500ms

Formats, found for each line:
  common, combined  nginx, Apache, Traefik, ingresses; also with a server's name, ports, proxies
    203.0.113.7 - ann [18/Nov/2024:16:55:00 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"curl/8\"
  JSON              Caddy, Traefik, Google Cloud, Azure, Cloudflare; nginx, Apache by usual names
    {\"time\": \"2024-11-18T16:55:00Z\", \"remote_addr\": \"203.0.113.7\", \"request_uri\": \"/a\"}
  Envoy, HAProxy    the default format of Envoy, that of Istio, and `option httplog`
  AWS               application, classic and network load balancers (there, connections)
  columns           CloudFront and IIS, after a line `#Fields:`
  calls             {\"time\": RFC 3339 or a number, \"descriptors\": {\"api_key\": \"k1\"}, \"cost\": 1}
  around a line     gzip, syslog, journalctl, docker, docker-compose, kubectl, CRI, log shippers

Others are refused with the command that converts them, such as `zstdcat FILE | tollgate replay -`.

A line gives ip, method, endpoint, status, user and user_agent. If more than 5% of the lines cannot
be read, nothing is replayed. Messages of servers between the calls are passed over. Times without a
zone are UTC.

With --agents, a simulated fleet answers: agents that share a store, and an aggregator. Each call
arrives at a random agent, the same in each run. An answer is compared with the exact count at its
own instant. After a time without calls in which all counts end, the agents start anew.";
