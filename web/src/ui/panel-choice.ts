/**
 * The choice of how channels are shown, in the tools of their plot.
 */
import type { PanelKind } from '../model/picture';
import { el } from './dom';

const WORDS: Readonly<Record<PanelKind, string>> = { trend: 'trend', spectrum: 'spectrum', waterfall: 'waterfall', image: 'image', table: 'table', alarms: 'alarms' };

/** Makes the choice, or changes the one that is there; a single kind needs none. */
export function offerPanels(tools: Element | null, kinds: readonly PanelKind[], shown: PanelKind, choose: (kind: PanelKind) => void): void {
  const before = tools?.querySelector<HTMLSelectElement>('.panel-choice') ?? null;
  if (before !== null && [...before.options].map(({ value }) => value).join() === kinds.join()) {
    before.value = shown;
    return;
  }
  before?.remove();
  if (kinds.length < 2) return;
  const select = el('select', { class: 'panel-choice', title: 'shown as', 'aria-label': 'shown as' });
  select.append(...kinds.map((kind) => el('option', { value: kind, text: WORDS[kind] })));
  select.value = shown;
  select.addEventListener('change', () => { const kind = kinds.find((each) => each === select.value); if (kind !== undefined) choose(kind); });
  select.addEventListener('keydown', (event) => event.stopPropagation());
  tools?.prepend(select);
}
