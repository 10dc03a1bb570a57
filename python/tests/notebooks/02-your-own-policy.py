# Claims of the text.
greedy, cost_benefit, own, function = means
assert max(cost_benefit, own, function) + max(widths) < greedy - widths[0]
assert all(one["shown"] for one in found.differences)
