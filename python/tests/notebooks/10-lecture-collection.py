# Claims of the text.
greedy, cost_benefit, own = found["uniform"].values()
assert all(a < c < b for a, b, c in zip(greedy, cost_benefit, own))
greedy, cost_benefit, own = found["zipf"].values()
assert all(b < 0.9 * a for a, b in zip(greedy, cost_benefit)) and cost_benefit[0] < 0.72 * greedy[0]
assert all(c < b for b, c in zip(cost_benefit, own))
assert abs(1 / (1 - u) / result["waf"] - 1) < 0.01


# The figures in the exercise are reachable.
assert round(found["zipf"]["age·(1−u)/u²"][0], 2) == 4.20 and round(waf("zipf", 0.07, "age_invalid_sum / u"), 2) == 4.04
