/**
 * The marks of one plot: a dashed line with a flag where a change of an app took effect.
 */
import type { Box } from '../chart';
import { placed, type Mark } from '../model/steering-marks';
import type { Shown } from '../model/window';
import { el, fill } from './dom';

/** Marks over a chart. */
export class SteeringMarks {
  readonly element = el('div', { class: 'steer-marks' });

  /** Places the marks over the data. */
  place(marks: readonly Mark[], shown: Shown, box: Box): void {
    const inside = placed(marks, shown);
    fill(this.element, inside.length, () => el('div', { class: 'steer-mark' }));
    inside.forEach(({ share, mark }, i) => {
      const line = this.element.children[i];
      if (!(line instanceof HTMLElement)) return;
      line.style.transform = `translate(${box.left + share * box.width}px, ${box.top}px)`;
      line.style.height = `${box.height}px`;
      if (line.title !== mark.words) line.title = mark.words;
    });
  }
}
