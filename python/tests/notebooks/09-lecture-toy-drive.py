# Claims of the text: a write that triggers collection waits for it; most writes do not.
fast = [took for took, erases, _ in slow if not erases]
late = [(took, erases, copies) for took, erases, copies in slow if erases]
assert len(fast) > len(late) > 0 and max(fast) < 2 < 5 < min(took for took, _, _ in late)
assert {erases for _, erases, _ in late} == {1, 2} and {took > 12 for took, erases, _ in late if erases == 2} == {True}
assert any(copies == 0 for _, _, copies in late) and drive.waf < 1.01

# A write takes 0.7 ms, plus 5 ms per erase and 0.8 ms per copy.
assert all(abs(took - 5 * erases - 0.7 - 0.8 * copies) < 0.3 for took, erases, copies in late)

# TRIM: the second of the two drives has copied nothing.
assert drive.stats()["nand"]["program"]["gc"] == 0 and trimmed == 8

# Units have the slots in which they were programmed.
fresh = strobe.Drive(toy())
for page in (*range(4), 0):
    fresh.write(page * 8, 8)
places = fresh.units()
row = {int(unit): (int(block), int(slot)) for unit, block, slot in zip(places["unit"], places["block"], places["slot"])}
first = row[1][0]
assert row == {0: (row[0][0], 0), 1: (first, 1), 2: (first, 2), 3: (first, 3)} and row[0][0] != first


# In motion: background collection costs more, and most on a drive of eight blocks. A fuller drive has a higher WAF.
def waf(*of):
    keys = {"drive": toy(*of), "workload": {"kind": "uniform"}, "run": {"warmup": 0, "measure": 3000}}
    return strobe.run(keys)["waf"]


assert waf(15, 8, "background") > 3.5 > 2 > waf(36, 16, "background") > waf(36, 16)
assert waf(8) < waf(12) < waf(14) < waf(15)
