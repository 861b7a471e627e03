#!/usr/bin/env python3
"""Measures the speed of Tollgate beside other rate limit servers, and prints the medians as Markdown.

Each round starts each server once with both cores and once on one core, and sends it all kinds of load, so that all servers
meet the same drift of the machine. A ratio is the median of the ratios of the rounds. The programs of the peers are named by
--bin; those that it lacks are left out. docs/speed.md says how to get them.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GRPC, HTTP, REDIS, DEBUG = 26081, 26080, 26379, 26070
START_SECONDS = 15

# Quotas of a key per minute. A domain is one of these and a number of descriptors, because limitador fails for a missing one.
QUOTAS = {"small": 100, "large": 1_000_000}
TENANT_QUOTA = 1_000_000

# Name, quota, arguments of the load. Peaks run with the server, and its Redis, on one core.
COSTS = [("cost", quota, ["--rate", "5000"]) for quota in QUOTAS]
LATENCY = ("latency", "small", ["--rate", "2000"])
PEAK = ("peak", "small", [])


class Server:
    """One row of the tables: a program, the way to ask it, and the row that it is compared with."""

    def __init__(self, name, program, command, protocol, reference=None, redis=False, body=None, path="/check", counts=(1, 2)):
        self.name, self.program, self.command, self.protocol = name, program, command, protocol
        self.reference, self.redis, self.body, self.path, self.counts = reference, redis, body, path, counts

    def load(self, count, quota):
        """Returns the arguments of the load with one or two descriptors."""
        domain = f"{quota}-{count}"
        if self.protocol == "rls":
            return ["--protocol", "rls", "--address", f"127.0.0.1:{GRPC}", "--domain", domain, "--descriptors", str(count)]
        body = self.body(count, domain) if self.body else {}
        address = f"127.0.0.1:{HTTP}"
        return ["--protocol", "http", "--address", address, "--path", self.path, "--body", json.dumps(body)]


def check(count, domain):
    tenant = {"tenant": "TENANT"} if count == 2 else {}
    return {"descriptors": {"domain": domain, "api_key": "KEY", **tenant}}


def envoy_json(count, domain):
    pairs = [("api_key", "KEY"), ("tenant", "TENANT")][:count]
    return {"domain": domain, "descriptors": [{"entries": [{"key": key, "value": value}]} for key, value in pairs]}


def throttle(_count, domain):
    quota = QUOTAS[domain.partition("-")[0]]
    return {"key": f"{domain}-KEY", "max_burst": quota, "count_per_period": quota, "period": 60}


def servers(tollgate, programs, files):
    """Returns the rows, those that are compared side by side."""
    listen = ["--http", f"127.0.0.1:{HTTP}", "--grpc", f"127.0.0.1:{GRPC}"]
    redis = ["--redis", f"redis://127.0.0.1:{REDIS}"]
    own = [tollgate, "agent", "--rules", str(files / "rules.yaml"), *listen]
    imported = [tollgate, "agent", "--envoy-config", str(files / "ratelimit/config"), *listen]
    limitador = programs / "limitador-server"
    grpc_and_http = ["-b", "127.0.0.1", "-p", str(GRPC), "-B", "127.0.0.1", "-P", str(HTTP)]
    ratelimit = programs / "ratelimit"
    environment = {
        "RUNTIME_ROOT": files / "ratelimit", "RUNTIME_SUBDIRECTORY": "", "RUNTIME_WATCH_ROOT": "false", "DISABLE_STATS": "true",
        "HOST": "127.0.0.1", "PORT": HTTP, "GRPC_HOST": "127.0.0.1", "GRPC_PORT": GRPC, "DEBUG_HOST": "127.0.0.1",
        "DEBUG_PORT": DEBUG, "REDIS_SOCKET_TYPE": "tcp", "REDIS_URL": f"127.0.0.1:{REDIS}",
    }
    envoy = ["env", *(f"{name}={value}" for name, value in environment.items()), str(ratelimit)]
    crab = programs / "throttlecrab-server"
    return [
        Server("limitador, memory", limitador, [limitador, *grpc_and_http, files / "limitador.yaml", "memory"], "rls"),
        Server("Tollgate, memory", tollgate, own, "rls", "limitador, memory"),
        Server("envoyproxy/ratelimit, Redis", ratelimit, envoy, "rls", redis=True),
        Server("Tollgate, Redis", tollgate, own + redis, "rls", "envoyproxy/ratelimit, Redis", redis=True),
        Server("Tollgate, Redis, imported", tollgate, imported + redis, "rls", "envoyproxy/ratelimit, Redis", redis=True),
        Server("axum echo", HERE, [built("echo"), f"127.0.0.1:{HTTP}"], "http", body=check, counts=(1,)),
        Server("throttlecrab, memory", crab, [crab, "--log-level", "warn", "--http", "--http-host", "127.0.0.1", "--http-port",
               str(HTTP)], "http", "axum echo", body=throttle, path="/throttle", counts=(1,)),
        Server("Tollgate, memory (HTTP)", tollgate, own, "http", "axum echo", body=check),
        Server("Tollgate, Redis (HTTP)", tollgate, own + redis, "http", "axum echo", redis=True, body=check),
        Server("envoyproxy/ratelimit, Redis (HTTP)", ratelimit, envoy, "http", "axum echo", redis=True, body=envoy_json, path="/json"),
    ]


def write_files(files):
    """Writes the same limits in the form of each server."""
    rules, limits = "rules:\n", ""
    (files / "ratelimit/config").mkdir(parents=True)
    for (name, quota), count in itertools.product(QUOTAS.items(), (1, 2)):
        domain = f"{name}-{count}"
        envoy = f"domain: {domain}\ndescriptors:\n"
        for nth, (key, quota) in enumerate([("api_key", quota), ("tenant", TENANT_QUOTA)][:count]):
            rules += f"  - {{ name: {domain}-{key}, match: {{ domain: {domain} }}, per: [{key}], quota: {quota}/min }}\n"
            envoy += f"  - {{ key: {key}, rate_limit: {{ unit: minute, requests_per_unit: {quota} }} }}\n"
            limits += f"- {{ namespace: {domain}, max_value: {quota}, seconds: 60, conditions: [], "
            limits += f"variables: [\"descriptors[{nth}]['{key}']\"] }}\n"
        (files / f"ratelimit/config/{domain}.yaml").write_text(envoy)
    (files / "rules.yaml").write_text(rules)
    (files / "limitador.yaml").write_text(limits)


def built(program):
    return str(ROOT / "target/peers/release" / program)


def wait_for(port, process, log):
    """Waits until the process listens on the port."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    sys.exit(f"nothing listens on port {port}: {Path(log.name).read_text()[-2000:]}")


@contextlib.contextmanager
def running(command, port, cores, log):
    process = subprocess.Popen(["taskset", "-c", cores, *map(str, command)], stdout=log, stderr=log)
    try:
        wait_for(port, process, log)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_steps(server, steps, cores, load_cores, settings, number, log):
    """Starts a server, and yields the result of each step."""
    with contextlib.ExitStack() as stack:
        processes = []
        if server.redis:
            command = ["redis-server", "--port", REDIS, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            processes.append(stack.enter_context(running(command, REDIS, cores, log)))
        port = GRPC if server.protocol == "rls" else HTTP
        processes.insert(0, stack.enter_context(running(server.command, port, cores, log)))
        connections, in_flight = ("4", "16") if server.protocol == "rls" else ("32", "1")
        for count in server.counts:
            for step, quota, load in steps:
                command = ["taskset", "-c", load_cores, built("load"), *server.load(count, quota), *load]
                command += ["--connections", connections, "--in-flight", in_flight]
                command += ["--seconds", str(settings.seconds), "--seed", str(number)]
                command += [word for process in processes for word in ("--process", str(process.pid))]
                result = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                yield {"server": server.name, "descriptors": count, "step": step, "quota": quota, "round": number, **result}


def measure(settings):
    """Appends one line of JSON for each step to the file of the results."""
    with tempfile.TemporaryDirectory() as folder, open(settings.results, "a", encoding="utf-8") as results:
        files = Path(folder)
        write_files(files)
        rows = [server for server in servers(settings.tollgate, settings.bin, files) if Path(server.program).exists()]
        rows = [server for server in rows if settings.only in server.name]
        both = ",".join(map(str, sorted(os.sched_getaffinity(0))))
        first, *others = both.split(",")
        for number in range(settings.first_round, settings.first_round + settings.rounds):
            for server in rows:
                with open(files / "log", "w", encoding="utf-8") as log:
                    for steps, cores, load_cores in (([*COSTS, LATENCY], both, both), ([PEAK], first, others[0])):
                        for result in run_steps(server, steps, cores, load_cores, settings, number, log):
                            print(json.dumps(result), file=results, flush=True)
                            print(f"round {number}: {server.name}, {result['step']}", file=sys.stderr)


def table(path):
    """Prints the medians of the results, one row for each server and number of descriptors."""
    results = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        key = (result["server"], result["descriptors"], result["step"], result["quota"])
        results.setdefault(key, {})[result["round"]] = result
    rows = servers("", Path(), Path())
    names, protocols = [row.name for row in rows], {row.name: row.protocol for row in rows}
    reference = {row.name: row.reference for row in rows}

    def median(key, figure):
        return statistics.median(figure(result) for result in results[key].values())

    def ratio(name, count, step, quota, figure):
        mine, other = results.get((name, count, step, quota), {}), (reference[name], count, step, quota)
        theirs = results.get(other) or results.get((reference[name], 1, step, quota), {})
        ratios = [figure(mine[number]) / figure(theirs[number]) for number in mine if number in theirs]
        return f" ({statistics.median(ratios):.2f})" if ratios else ""

    def cpu(result):
        return sum(result["cpu_us"])

    def parts(key):
        """Returns the CPU time of a check of the server, and of its Redis."""
        processes = zip(*(result["cpu_us"] for result in results[key].values()))
        return " + ".join(f"{statistics.median(process):.0f}" for process in processes)

    for protocol, title in (("rls", "gRPC"), ("http", "HTTP")):
        print(f"| {title} | descriptors | us at 100/min | us at 1,000,000/min | p50, us | p99, us | peak/s | us at peak |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for name, count in sorted({key[:2] for key in results}, key=lambda row: (names.index(row[0]), row[1])):
            if protocols[name] != protocol:
                continue
            cells = []
            for step, quota in (("cost", "small"), ("cost", "large")):
                cells.append(parts((name, count, step, quota)) + ratio(name, count, step, quota, cpu))
            for quantile in ("p50_us", "p99_us"):
                cells.append(f"{median((name, count, 'latency', 'small'), lambda result: result[quantile]):,.0f}")
            peak = (name, count, "peak", "small")
            cells.append(f"{median(peak, lambda result: result['per_second']):,.0f}")
            cells.append(parts(peak) + ratio(*peak, cpu))
            print(f"| {name.removesuffix(' (HTTP)')} | {count} | {' | '.join(cells)} |")
        print()
    failed = sum(result["failed"] for rounds in results.values() for result in rounds.values())
    rounds = max((len(rounds) for rounds in results.values()), default=0)
    for name, count in sorted({key[:2] for key in results}):
        large = results[(name, count, "cost", "large")].values()
        denied = max(result["denied"] / max(result["checks"], 1) for result in large)
        if denied > 0:
            print(f"{name}, {count}: up to {denied:.1%} denied at 1,000,000/min, which no key reaches.")
    print(f"{rounds} rounds. Calls without a decision: {failed}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tollgate", default=str(ROOT / "target/release/tollgate"), help="program of Tollgate")
    parser.add_argument("--bin", type=Path, default=ROOT / "target/peers/bin", help="folder of the peers' programs")
    parser.add_argument("--results", default="peers.jsonl", help="file of the results, to which a run appends")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first-round", type=int, default=1, help="number of the first round, to continue a file")
    parser.add_argument("--seconds", type=float, default=5, help="measured seconds of each step")
    parser.add_argument("--only", default="", help="part of the names of the servers")
    parser.add_argument("--table", action="store_true", help="only print the table of the results")
    settings = parser.parse_args()
    if not settings.table:
        measure(settings)
    table(settings.results)


if __name__ == "__main__":
    main()
