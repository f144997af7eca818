#!/usr/bin/env python3
"""Draws what many_peers prints: bytes of a node that has talked to N - 1 others, by reliable
connections and by reliable datagrams, as an SVG with logarithmic axes.

  build/release/bin/many_peers | scripts/contexts_plot.py > docs/contexts.svg
"""
import json
import math
import sys

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 90, 20, 50
COLOURS = {"RC": "#b04030", "RD": "#2060a0"}
DASHES = {1: "2 4", 4: "7 4", 16: ""}


def scale(value, low, high, begin, end):
    share = (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))
    return begin + share * (end - begin)


def decades(low, high):
    return [10**n for n in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]


def text(x, y, words, anchor="middle", more=""):
    return (f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="12" '
            f'font-family="sans-serif" {more}>{words}</text>')


def amount(number):
    for power, unit in ((9, "GB"), (6, "MB"), (3, "kB")):
        if number >= 10**power:
            return f"{number / 10**power:.0f} {unit}"
    return f"{number} B"


def plot(rows):
    rows = [row for row in rows if "bytes" in row and row["nodes"] > 2]
    nodes = [row["nodes"] for row in rows]
    sizes = [row["bytes"] for row in rows]
    ends = min(nodes), max(nodes)
    bounds = 10 ** math.floor(math.log10(min(sizes))), 10 ** math.ceil(math.log10(max(sizes)))

    def across(value):
        return scale(value, *ends, LEFT, WIDTH - RIGHT)

    def up(value):
        return scale(value, *bounds, HEIGHT - BOTTOM, TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for value in decades(*bounds):
        y = up(value)
        out.append(f'<path d="M{LEFT} {y:.0f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, y + 4, amount(value), "end"))
    for value in sorted(set(nodes)):
        out.append(text(across(value), HEIGHT - BOTTOM + 18, value))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, "nodes"))
    for service, colour in COLOURS.items():
        for processes, dash in DASHES.items():
            line = sorted((r["nodes"], r["bytes"]) for r in rows
                          if r["service"] == service and r["processes"] == processes)
            if not line:
                continue
            points = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
            out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                       f'stroke-width="2" stroke-dasharray="{dash}"/>')
            x, y = line[-1]
            out.append(text(across(x) + 6, up(y) + 4, f"{service}, M = {processes}", "start",
                            f'fill="{colour}"'))
    out.append("</svg>")
    return "\n".join(out)


def main():
    print(plot([json.loads(line) for line in sys.stdin if line.startswith("{")]))


if __name__ == "__main__":
    main()
