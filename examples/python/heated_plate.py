"""A heated plate in two dimensions, simulated in real time and steered while it runs.

Its temperature is published as images of 64 × 96 points at 20 Hz and at three probes; heater and diffusion are
parameters: `tallycast steer set sim/plate heater=3`. The same in Rust: `examples/heated_plate.rs`.
"""

import numpy as np

import tallycast as tc

HEIGHT, WIDTH = 64, 96
STEPS = 10  # of the scheme within a cycle
ROOM = 20.0  # °C
PROBES = [(32, 24), (32, 48), (32, 90)]  # on the heater, beside it, at the cold edge


class Plate:
    """The temperatures, by explicit differences (Courant, Friedrichs and Lewy 1928), stable up to a diffusion of 0.25."""

    def __init__(self) -> None:
        self.field = np.full((HEIGHT, WIDTH), ROOM, dtype=np.float32)
        self.heated = np.zeros_like(self.field)
        self.heated[28:36, 20:28] = 1.0

    def advance(self, diffusion: float, heat: float) -> None:
        """Computes the next temperatures; the edges lose their heat to the room."""
        inner = self.field[1:-1, 1:-1]
        around = self.field[:-2, 1:-1] + self.field[2:, 1:-1] + self.field[1:-1, :-2] + self.field[1:-1, 2:]
        self.field[1:-1, 1:-1] = inner + diffusion * (around - 4 * inner) + heat * self.heated[1:-1, 1:-1]


plate = Plate()


@tc.app(
    "sim/plate",
    period="50ms",
    outputs={
        "image": tc.Output("plate/image", {"temperature": tc.Channel("°C", (HEIGHT, WIDTH))}, dtype="f4"),
        "probes": tc.Output("plate/probes", {"heater": "°C", "middle": "°C", "edge": "°C"}, dtype="f4"),
    },
    parameters={
        "heater": tc.Parameter(1.0, unit="kW", range=(0, 5), lease="plate"),
        "diffusion": tc.Parameter(0.2, range=(0.01, 0.25), lease="plate"),
    },
)
def simulate(cycle: tc.Cycle) -> None:
    """Runs once for every sample; changes of the parameters come between two calls."""
    for _ in range(STEPS):
        plate.advance(cycle.parameters["diffusion"], cycle.parameters["heater"])
    cycle.image = plate.field
    cycle.probes = [plate.field[row, column] for row, column in PROBES]


if __name__ == "__main__":
    simulate.run()
