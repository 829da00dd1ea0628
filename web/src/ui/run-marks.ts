/**
 * The starts and ends of runs on one plot: a line each with the run's id beside it.
 */
import { placedMarks, type RunMark } from '../model/run-marks';
import { full, type Zone } from '../model/time';
import { el, fill, setAttribute, setText } from './dom';

/** Room of an id: of a mark that is nearer to the one before, the line alone is drawn. */
const LABEL_PX = 96;

/** Marks over a plot. */
export class RunMarks {
  readonly element = el('div', { class: 'run-marks', 'aria-hidden': 'true' });

  /** Places the marks over the data in `box`. */
  place(marks: readonly RunMark[], shown: { readonly from: bigint; readonly spanNs: bigint }, box: { readonly left: number; readonly top: number; readonly width: number; readonly height: number }, zone: Zone): void {
    const inside = placedMarks(marks, shown);
    fill(this.element, inside.length, () => el('div', { class: 'run-mark' }, el('span', { class: 'run-flag' })));
    let labelled = -Infinity;
    inside.forEach(({ share, mark }, i) => {
      const line = this.element.children[i];
      const flag = line?.firstElementChild;
      if (!(line instanceof HTMLElement) || !(flag instanceof HTMLElement)) return;
      const x = share * box.width;
      const bare = !mark.chosen && x - labelled < LABEL_PX;
      if (!bare) labelled = x;
      line.style.transform = `translate(${box.left + x}px, ${box.top}px)`;
      line.style.blockSize = `${box.height}px`;
      setAttribute(line, 'data-edge', mark.edge);
      setAttribute(line, 'data-chosen', mark.chosen ? '' : null);
      // Beyond the plot's edge there is no room for it.
      setAttribute(line, 'data-flip', (mark.edge === 'start' ? box.width - x : x) < LABEL_PX ? '' : null);
      flag.hidden = bare;
      setText(flag, mark.edge === 'start' ? `▸ ${mark.id}` : `${mark.id} ◂`);
      setAttribute(line, 'title', `${mark.id} ${mark.edge === 'start' ? 'starts' : 'ends'} ${full(mark.at, zone)}`);
    });
  }
}
