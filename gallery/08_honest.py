"""Is the uncertainty honest?

The report's own figure, from days and stations that training never saw. Flat ranks, coverage on the diagonal and
errors as large as the spread mean that the intervals can be taken at their word. A valley in the ranks means too sure,
a hill too unsure.
"""

from solidfield.report.figures import pictures
from world import findings, save

# %% Judge the run, and take the picture of calibration one hour ahead
print(findings().verdict.headline)
figure = next(one.figure for one in pictures(findings()) if one.name == "lead1-calibration")

save(figure, __file__)
