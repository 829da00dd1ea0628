/**
 * The choice of how a channel with a shape is shown, in the tools of its plot.
 */
import type { PanelKind } from '../model/picture';
import { el } from './dom';

const WORDS: Readonly<Record<PanelKind, string>> = { trend: 'trend', spectrum: 'spectrum', waterfall: 'waterfall', image: 'image' };

/** Makes the choice, or changes the one that is there; a single kind needs none. */
export function offerPanels(tools: Element | null, kinds: readonly PanelKind[], shown: PanelKind, choose: (kind: PanelKind) => void): void {
  const before = tools?.querySelector<HTMLSelectElement>('.panel-choice') ?? null;
  if (kinds.length < 2) return before?.remove();
  if (before !== null) {
    before.value = shown;
    return;
  }
  const select = el('select', { class: 'panel-choice', title: 'shown as', 'aria-label': 'shown as' });
  select.append(...kinds.map((kind) => el('option', { value: kind, text: WORDS[kind] })));
  select.value = shown;
  select.addEventListener('change', () => { const kind = kinds.find((each) => each === select.value); if (kind !== undefined) choose(kind); });
  select.addEventListener('keydown', (event) => event.stopPropagation());
  tools?.prepend(select);
}
