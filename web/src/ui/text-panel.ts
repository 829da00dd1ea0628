/**
 * A panel of the grid that holds text instead of a chart: it can be active while a part of it has the focus.
 */
import type { Plot } from '../model/layout';
import { Panel, type PlotListener, type Shared } from './panel';

/** A panel of text. */
export abstract class TextPanel extends Panel {
  constructor(view: number, plot: Plot, listener: PlotListener, shared: () => Shared) {
    super(view, plot, listener, shared, { bodyClass: 'plot-body text-body', alone: 'm' });
    this.element.addEventListener('focusin', () => listener.onActivate());
  }

  override setPlot(plot: Plot, _units: readonly string[]): void {
    this.plot = plot;
    this.dirty = true;
  }
}
