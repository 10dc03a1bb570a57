# Claims of the text.
for name in DRIVES:
    real = measured(DRIVES[name][1])
    for rate, row in ours[name].items():
        for mine, theirs, most in zip(row, real[rate], (0.45, 0.35, 0.45)):
            assert abs(mine / theirs - 1) < most, (name, rate, row, real[rate])
