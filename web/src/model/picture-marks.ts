/**
 * Marks in the picture of a plot: lines of runs and of changes of apps, with the words that a pointer or the page would tell.
 *
 * Lengths are CSS pixels; nothing here draws.
 */
import { flagged, type RunMark } from './run-marks';
import { placed, type Mark } from './steering-marks';
import type { Shown } from './window';

/** A line over the data, with its words beside it. */
export interface PictureMark {
  /** From the left edge of the data. */
  readonly x: number;
  readonly kind: 'run' | 'chosen-run' | 'change';
  /** Empty where there is no room. */
  readonly label: string;
  /** Side of the line on which the label is. */
  readonly side: 'left' | 'right';
}

/** Room of the name of an app: of a mark that is nearer to the one before, the line alone is drawn. */
const NAME_PX = 96;

/** Returns the marks of a plot whose data are `width` wide. */
export function pictureMarks(runs: readonly RunMark[], changes: readonly Mark[], shown: Shown, width: number): readonly PictureMark[] {
  let named = -Infinity;
  const ofApps = [...changes].sort((a, b) => (a.at < b.at ? -1 : 1));
  return [
    ...flagged(runs, shown, width).map(({ x, mark, label, side }) => ({ x, kind: mark.chosen ? 'chosen-run' : 'run', label, side } as const)),
    ...placed(ofApps, shown).map(({ share, mark }) => {
      const x = share * width;
      const bare = x - named < NAME_PX;
      if (!bare) named = x;
      return { x, kind: 'change', label: bare ? '' : mark.app, side: width - x < NAME_PX ? 'left' : 'right' } as const;
    }),
  ];
}
