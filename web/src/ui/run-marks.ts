/**
 * The starts and ends of runs on one plot: a line each with the run's id beside it.
 */
import type { Box } from '../chart';
import { flagged, type RunMark } from '../model/run-marks';
import { full, type Zone } from '../model/time';
import type { Shown } from '../model/window';
import { el, fill, setAttribute, setText } from './dom';

/** Marks over a plot. */
export class RunMarks {
  readonly element = el('div', { class: 'run-marks', 'aria-hidden': 'true' });

  /** Places the marks over the data in `box`. */
  place(marks: readonly RunMark[], shown: Shown, box: Box, zone: Zone): void {
    const inside = flagged(marks, shown, box.width);
    fill(this.element, inside.length, () => el('div', { class: 'run-mark' }, el('span', { class: 'run-flag' })));
    inside.forEach(({ x, mark, label, side }, i) => {
      const line = this.element.children[i];
      const flag = line?.firstElementChild;
      if (!(line instanceof HTMLElement) || !(flag instanceof HTMLElement)) return;
      line.style.transform = `translate(${box.left + x}px, ${box.top}px)`;
      line.style.blockSize = `${box.height}px`;
      setAttribute(line, 'data-edge', mark.edge);
      setAttribute(line, 'data-chosen', mark.chosen ? '' : null);
      setAttribute(line, 'data-side', side);
      flag.hidden = label === '';
      setText(flag, label);
      setAttribute(line, 'title', `${mark.id} ${mark.edge === 'start' ? 'starts' : 'ends'} ${full(mark.at, zone)}`);
    });
  }
}
