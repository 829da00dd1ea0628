/**
 * Kinds of panels: which ones show the channels of a plot, and the panel of each.
 */
import type { Plot } from '../model/layout';
import { channelOf, panelsOf, type PanelKind } from '../model/picture';
import type { Cursors } from '../model/stretch';
import type { Stream } from '../wire/messages';
import { AlarmPanel } from './alarm-panel';
import type { AlarmContext } from './alarm-rows';
import type { Panel, Shared } from './panel';
import { PlotPanel } from './plot-panel';
import { SamplePanel, type SamplePanelListener } from './sample-panel';
import { TablePanel } from './table-panel';

/** Services that panels need from the plots. */
export interface PanelContext {
  catalogue(): ReadonlyMap<string, Stream>;
  alarms(): AlarmContext;
  cursors(): Cursors | null;
  say(text: string): void;
  /** A panel is to be drawn. */
  onNews(): void;
}

/** Makes the panel of a plot. */
export function makePanel(view: number, plot: Plot, listener: SamplePanelListener, shared: () => Shared, context: PanelContext): Panel {
  const catalogue = (): ReadonlyMap<string, Stream> => context.catalogue();
  switch (plot.panel) {
    case 'trend': return new PlotPanel(view, plot, listener, shared);
    case 'alarms': return new AlarmPanel(view, plot, listener, shared, context.alarms(), () => context.onNews());
    case 'table': return new TablePanel(view, plot, listener, shared, {
      catalogue, alarmsOf: (input) => context.alarms().board.of(input), now: () => context.alarms().now(), cursors: () => context.cursors(), say: (text) => context.say(text),
    });
    default: return new SamplePanel(view, plot, listener, shared, catalogue);
  }
}

/** Returns the kinds of panels that show the channels of a plot: all that one channel has, and of several those that `fit` allows. */
export function kindsOf(plot: Plot, catalogue: ReadonlyMap<string, Stream>, fit: () => boolean): readonly PanelKind[] {
  const channel = channelOf(plot.traces[0], catalogue);
  if (plot.panel === 'alarms') return [];
  if (plot.traces.length === 1 && channel !== undefined) return panelsOf(channel);
  return plot.panel === 'trend' || fit() ? ['trend', 'table'] : ['table'];
}
