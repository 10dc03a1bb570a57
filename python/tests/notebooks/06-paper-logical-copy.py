# Claims of the text.
for measured, v in zip(programmed["read and write"], live["read and write"]):
    assert abs(measured * (1 - v) - 1) < 0.05
assert programmed["copy, logical"][-1] < 0.5 * programmed["read and write"][-1]
assert speed["copy, logical"][-1] > 1.5 * speed["read and write"][-1]
assert speed["copy, logical"][0] < 1.1 * speed["read and write"][0]
