/**
 * Layouts by chance, from a seed: for the properties of shared views.
 */
import { hasPlane, plotOf, type Layout, type Plot } from '../../src/model/layout';
import { PANELS } from '../../src/model/picture';
import type { AxisMode } from '../../src/model/scale';
import type { Shown } from '../../src/model/shared-fields';

/** A generator of numbers from 0 to 1, the same for the same seed (xorshift; G. Marsaglia, 2003). */
export function seeded(seed: number): () => number {
  let state = (seed + 1) * 0x9e37_79b1;
  const next = (): number => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 8; i += 1) next();
  return next;
}

/** A whole number below `count`. */
export const below = (random: () => number, count: number): number => Math.floor(random() * count);

function someAxis(random: () => number): AxisMode {
  const low = below(random, 9) - 4.5;
  return [{ kind: 'auto' }, { kind: 'held', range: { low, high: low + 1e-9 + random() } }, { kind: 'fixed', range: { low, high: 2e9 } }][below(random, 3)] as AxisMode;
}

/** The first plane, or one of several extents. */
const somePlane = (random: () => number): readonly number[] => [[], [1], [0, 2], [2, 0]][below(random, 4)] ?? [];

/** A plot. */
export function somePlot(random: () => number): Plot {
  const traces = Array.from({ length: 1 + below(random, 3) }, () => ({ stream: `lab/"${below(random, 4)}_ns":"5"`, channel: ['I', 'µ,;:', 'x[3]'][below(random, 3)] ?? '' }));
  const plot = plotOf(traces, PANELS[below(random, 8)]);
  return { ...plot, plane: hasPlane(plot.panel) ? somePlane(random) : plot.plane, columns: random() < 0.5 ? null : 1 + below(random, 12), rows: 1 + below(random, 4), axis: someAxis(random) };
}

/** A layout of up to six plots. */
export function someLayout(random: () => number): Layout {
  const plots = Array.from({ length: below(random, 7) }, () => somePlot(random));
  const at = (): bigint => 1_790_000_000_000_000_000n + BigInt(below(random, 1_000_000_000));
  return {
    plots, window: { spanNs: 1_000n + BigInt(below(random, 1_000_000)), endNs: random() < 0.5 ? null : at() },
    single: plots.length > 0 && random() < 0.3 ? below(random, plots.length) : null,
    cursors: random() < 0.5 ? null : { a: at(), b: BigInt(below(random, 100)) },
    run: random() < 0.5 ? null : { choice: { id: `shot-${below(random, 3)}`, at: random() < 0.5 ? null : at() }, relative: random() < 0.5, whole: random() < 0.5 },
  };
}

/** The layout after one change such as a user makes. */
export function someChange(random: () => number, layout: Layout): Layout {
  const { plots } = layout;
  const place = below(random, plots.length);
  const other = someLayout(random);
  switch (below(random, 7)) {
    case 0: return { ...layout, window: other.window };
    case 1: return { ...layout, cursors: other.cursors };
    case 6: return { ...layout, window: other.window, run: other.run };
    case 2: return plots.length < 8 ? { ...layout, plots: [...plots, somePlot(random)], single: null } : layout;
    case 3: return { ...layout, plots: plots.filter((_, i) => i !== place), single: null };
    case 4: return { ...layout, plots: plots.map((plot, i) => (i === place ? { ...plot, axis: someAxis(random), rows: 1 + below(random, 4), plane: hasPlane(plot.panel) ? somePlane(random) : plot.plane } : plot)) };
    default: return { ...layout, single: layout.single === null && plots.length > 0 ? place : null };
  }
}

/** A layout whose plots have names. */
export function someShown(random: () => number): Shown {
  const layout = someLayout(random);
  return { layout, ids: layout.plots.map((_, i) => `p${i}`) };
}
