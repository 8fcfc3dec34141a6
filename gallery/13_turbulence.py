"""Turbulence to practise on

The Navier-Stokes simulator makes truth that no sensor network could: vorticity of a forced flow in a periodic box. A
tenth of the cells is read (dots). `make demo` trains on such readings and is judged by the rest.
"""

import cmocean
import numpy as np
from matplotlib.figure import Figure

import solidfield as sf
from world import save

# %% One trajectory, and the masks of a scenario of the paper
flow = sf.simulate_navier_stokes(1, cells=48, frames=7, spacing=0.4, seed=2).squeeze()
source, target = sf.scenario_masks("random", 0.1, "global", (48, 48), index=0, seed=0)

# %% Every other frame
figure = Figure(figsize=(9, 2.7), layout="constrained")
axes = figure.subplots(1, 4)
limit = float(np.quantile(np.abs(flow), 0.995))
for ax, frame in zip(axes, flow[::2], strict=True):
    image = ax.imshow(frame, origin="lower", cmap=cmocean.cm.balance, vmin=-limit, vmax=limit)
    y, x = np.nonzero(source)
    ax.plot(x, y, ".", color="black", markersize=2)
    ax.set(title=f"time {float(frame['time']):.1f}", xticks=[], yticks=[])
figure.colorbar(image, ax=list(axes), label="vorticity", extend="both", shrink=0.9)

save(figure, __file__)
