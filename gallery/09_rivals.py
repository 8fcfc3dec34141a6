"""Is it worth it beside simple methods?

The error (CRPS) of the run, of kriging and of simple rules on the same held-out readings, by kind of place. Farther
left is better, bars are 95 % intervals. When a simple method wins, the verdict of the report says so: use it. Kriging
describes this city nearly exactly, so there is little to gain here.
"""

from solidfield.report.figures import pictures
from world import findings, save

# %% The same evaluation, another picture
for sentence in findings().verdict.worth:
    print(sentence)
figure = next(one.figure for one in pictures(findings()) if one.name == "lead1-models")

save(figure, __file__)
