/**
 * What every plot of the grid does, whatever it shows.
 */
import type { PlotPanel } from './plot-panel';

type Shape = Pick<PlotPanel, keyof PlotPanel>;

/** A plot of the grid. */
export interface Panel extends Omit<Shape, 'listener' | 'shared' | 'setFrame'> {}
