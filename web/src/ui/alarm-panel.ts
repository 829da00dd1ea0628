/**
 * Alarms as a panel of the grid. Its rows are those of `alarm-rows.ts`.
 */
import { badgeOf } from '../model/alarms';
import type { Plot } from '../model/layout';
import { AlarmRows, type AlarmContext } from './alarm-rows';
import { setAttribute, setText } from './dom';
import type { PlotListener, Shared } from './panel';
import { TextPanel } from './text-panel';

/** A panel of alarms. */
export class AlarmPanel extends TextPanel {
  readonly #rows: AlarmRows;
  readonly #unlisten: () => void;

  /** `onNews`: it is to be drawn. */
  constructor(view: number, plot: Plot, listener: PlotListener, shared: () => Shared, readonly context: AlarmContext, onNews: () => void) {
    super(view, plot, listener, shared);
    this.#rows = new AlarmRows(context);
    this.title.textContent = 'Alarms';
    this.element.setAttribute('aria-label', 'Alarms');
    this.body.append(this.#rows.element);
    this.#unlisten = context.board.listen(() => {
      this.invalidate();
      onNews();
    });
  }

  override render(): boolean {
    if (!this.dirty) return false;
    this.dirty = false;
    const badge = badgeOf(this.context.board.all);
    setText(this.note, badge?.text ?? 'none on this bus');
    setAttribute(this.note, 'data-state', badge?.mood ?? null);
    this.#rows.show();
    return true;
  }

  override destroy(): void {
    this.#unlisten();
    super.destroy();
  }
}
