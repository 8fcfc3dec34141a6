"""What is wrong with these readings?

The data doctor reads the table once, names every fault with its rows and its remedy, and compares grids. Here one
station sent 999 whenever it failed. The bars at the lower right say how many pairs of frames each grid leaves to learn
from; the suggested one is orange.
"""

import solidfield as sf
from solidfield.plot.readings import check_figure
from world import UNITS, save, table

# %% A table of readings, as a CSV would have it
rows = table()
one = rows.index[(rows["lat"] == rows["lat"][0]) & (rows["lon"] == rows["lon"][0])]
rows.loc[one[::9], "PM2.5"] = 999.0

# %% What the doctor says
found = sf.check(rows, units=UNITS, timezone="+05:30")
for finding in found.findings:
    print(f"{finding.severity}: {finding.text}; do: {finding.remedy}")
figure = check_figure(found)

save(figure, __file__)
