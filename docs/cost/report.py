#!/usr/bin/env python3
"""Writes what `make cost` measured into README.md and docs/cost.md.

Reads the raw results beside it (the objects of `tare demo --json`) and replaces
what stands between the two marks of each document. Measures nothing and rounds
nothing up: a share is called 100% only if it is.
"""

import json
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MARKS = re.compile(r"(<!-- make cost: begin -->\n).*?(<!-- make cost: end -->)", re.S)


def load():
    runs = [json.loads(p.read_text()) for p in HERE.glob("*.json")]
    return {(r["chain"], r["sample"]): r for r in sorted(runs, key=lambda r: (r["chain"], r["sample"]))}


def share(part, whole):
    if whole == 0:
        return "none sampled"
    if part == whole:
        return "100%"
    return f"{min(100 * part / whole, 99.999):.3f}%"


def fidelity(r):
    return (f"{r['complete']:,} of {r['sampled']:,} sampled complete ({share(r['complete'], r['sampled'])}), "
            f"{r['wrong']} wrong, {r['failed']} of {r['requests']:,} requests failed")


def ratio(x):
    text = f"{x['median']:.3f} ({x['lo']:.3f} to {x['hi']:.3f})"
    return text + (f" [{x['warning']}]" if x.get("warning") else "")


def machine(r):
    m = r["machine"]
    return f"{m['cpus']} CPUs, Linux {m['kernel']}, {m['arch']}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(c) for c in line) + " |\n" for line in lines)


def targets(runs):
    """The targets' table: target, measured, met."""
    rows = []

    def add(what, target, r, measured, met):
        verdict = "" if r is None else met(r)
        if isinstance(verdict, bool):
            verdict = "yes" if verdict else "**no**"
        rows.append([what, target, "not measured" if r is None else measured(r), verdict])

    def at_most(limit):
        def verdict(r):
            x = r["ratio"]["cpu"]
            if x["lo"] <= limit < x["hi"]:
                return "within the interval"
            return x["hi"] <= limit
        return verdict

    def cpu(r):
        return f"{ratio(r['ratio']['cpu'])}, n = {r['ratio']['cpu']['n']}; control {ratio(r['control']['cpu'])}"

    for chain in ("nginx", "shop"):
        add(f"fidelity, `{chain}`, 100% sampled", "≥ 99.9% complete, 0 wrong", runs.get((chain, 1)), fidelity,
            lambda r: r["complete"] >= 0.999 * r["sampled"] and r["wrong"] == 0)
    for chain in ("nginx", "shop"):
        add(f"fidelity, `{chain}`, 1% sampled", "every sampled trace complete", runs.get((chain, 0.01)), fidelity,
            lambda r: r["complete"] == r["sampled"] and r["wrong"] == 0)
    add("CPU per request, `nginx`, 1% sampled", "≤ 1.02 × untraced", runs.get(("nginx", 0.01)), cpu, at_most(1.02))
    add("CPU per request, `nginx`, 100% sampled", "≤ 1.12 × untraced", runs.get(("nginx", 1)), cpu, at_most(1.12))
    add("agent's own CPU, `nginx` saturated, 1% sampled", "≤ 0.02 cores", runs.get(("nginx", 0.01)),
        lambda r: f"{r['agent']['cpu_cores']:.3f} cores, median of {r['rounds']} windows",
        lambda r: r["agent"]["cpu_cores"] <= 0.02)
    most = max(runs.values(), key=lambda r: r["agent"]["peak_rss_mib"], default=None)
    add("agent's memory, peak of all windows", "≤ 60 MiB", most,
        lambda r: f"{r['agent']['peak_rss_mib']:.1f} MiB (`{r['chain']}`, {100 * r['sample']:g}%)",
        lambda r: r["agent"]["peak_rss_mib"] <= 60)
    text = table(["", "target", "measured: median (95% interval)", "met"], rows)
    return text + f"\n{connections(runs)}; {' and '.join(sorted({machine(r) for r in runs.values()}))}.\n"


def connections(runs):
    return " and ".join(str(c) for c in sorted({r["concurrency"] for r in runs.values()})) + " connections"


def details(r):
    """One run: where the time goes."""
    text = f"## `{r['chain']}`, {100 * r['sample']:g}% sampled\n\n"
    text += f"{r['concurrency']} connections, {machine(r)}. {fidelity(r)}.\n\n"
    if r["rounds"]:
        text += table(["medians", "untraced", "traced", "ratio (95% interval)", "control"], [
            ["requests/s", f"{r['baseline']['rps']:.0f}", f"{r['rps']:.0f}",
             ratio(r["ratio"]["rps"]), ratio(r["control"]["rps"])],
            ["CPU per request, µs", f"{r['baseline']['cpu_us_per_request']:.1f}", f"{r['cpu_us_per_request']:.1f}",
             ratio(r["ratio"]["cpu"]), ratio(r["control"]["cpu"])],
        ])
        text += (f"\nn = {r['ratio']['cpu']['n']} rounds. Agent: {r['agent']['cpu_cores']:.3f} cores, "
                 f"{r['agent']['rss_mib']:.1f} MiB (peak {r['agent']['peak_rss_mib']:.1f} MiB).\n\n")
    rows, total = [], 0.0
    for p in r["programs"]:
        each = p["runs"] * p["ns_per_run"] / r["requests"]
        total += each
        rows.append([f"`{p['name']}`", f"{p['runs']:,}", f"{p['runs'] / r['requests']:.2f}",
                     f"{p['ns_per_run']:.0f}", f"{each:.0f}"])
    text += table(["program", "runs", "runs/request", "ns/run", "ns/request"], [*rows, ["all", "", "", "", f"{total:.0f}"]])
    lost = {reason: n for reason, n in r["lost"].items() if n}
    if lost:
        text += "\nLost: " + ", ".join(f"{reason} {n:,}" for reason, n in sorted(lost.items())) + ".\n"
    for warning in r["warnings"]:
        text += f"\nWarning: {warning}.\n"
    return text


def replace(path, text):
    old = path.read_text()
    new, found = MARKS.subn(lambda m: m[1] + text + m[2], old)
    if found != 1:
        raise SystemExit(f"{path.name}: no marks, or more than one pair")
    path.write_text(new)


def main():
    runs = load()
    if not runs:
        raise SystemExit("no results: run `make cost`")
    replace(ROOT / "README.md", targets(runs))
    replace(ROOT / "docs" / "cost.md", "\n" + "\n".join(details(r) for r in runs.values()) + "\n")


if __name__ == "__main__":
    main()
