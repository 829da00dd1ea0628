/**
 * Draws one trace: the envelope of its columns with their means in it, or its single samples.
 *
 * Never a line across a hole: a column or point that is `NaN` ends the run before it, and the next run begins
 * with a move. The page test `no line bridges a hole` holds this in pixels.
 */
import { MEAN_STEPS, MEAN_UNKNOWN, type Columns, type Points, type TraceFrame, type ViewFrame } from '../wire/frame';
import { timeToX, valueToY, type Area, type Linear, type Shown } from './area';
import type { Range } from '../model/scale';

/** Style of a trace. */
export interface Pen {
  readonly colour: string;
  readonly widthPx: number;
  /** 0 to 1; a stale trace is pale. */
  readonly opacity: number;
}

/** The envelope's body is this much paler than its edges. */
const BODY_OPACITY = 0.55;
/** With the means drawn in it, body and edges are behind them. */
const BEHIND_MEAN = { body: 0.3, edge: 0.5 };
/** An envelope with a column higher than so many lines shows its means: lower ones have no room for a line. */
const ROOM_FOR_MEAN = 4;
/** An edge that climbs by more than this from column to column makes a polygon slow to fill (measured without a GPU). */
const STEEP_PX = 6;
/** Columns apart by more than this get dots, since the line between them is a guess of the eye. */
const DOT_SPACING_PX = 9;

/** Draws a trace into `area`; the caller has clipped to it. */
export function paintTrace(
  context: CanvasRenderingContext2D,
  frame: ViewFrame,
  trace: TraceFrame,
  place: { readonly area: Area; readonly shown: Shown; readonly range: Range },
  pen: Pen,
): void {
  if (trace.body.count === 0) return;
  const x = timeToX(place.area, place.shown, frame.from);
  const y = valueToY(place.area, place.range);
  context.strokeStyle = pen.colour;
  context.fillStyle = pen.colour;
  context.lineWidth = pen.widthPx * place.area.ratio;
  context.lineJoin = 'round';
  context.globalAlpha = pen.opacity;
  if (trace.body.kind === 'columns') paintColumns(context, trace.body, columnX(x, frame), y, pen);
  else paintPoints(context, trace.body, x, y, place.area.ratio);
  context.globalAlpha = 1;
}

/** Maps a column's number to the x of its middle. */
function columnX(x: Linear, frame: ViewFrame): Linear {
  const slope = x.slope * Number(frame.column);
  return { at: x.at + slope / 2, slope, base: 0 };
}

/** Cost and extent of an outline. */
interface Outline {
  /** Height of the highest column. */
  readonly thickest: number;
  /** Length of the upper edge, up and down. */
  readonly climb: number;
}

/**
 * The body between the largest and smallest values with its two edges, then the means in it.
 *
 * A run of one column would have no area: it becomes an upright stroke.
 */
function paintColumns(context: CanvasRenderingContext2D, body: Columns, x: Linear, y: Linear, pen: Pen): void {
  const { thickest, climb } = outline(context, body, x, y);
  const hasMeans = body.means !== null && thickest > ROOM_FOR_MEAN * context.lineWidth;
  context.globalAlpha = pen.opacity * (hasMeans ? BEHIND_MEAN.edge : 1);
  context.stroke();
  if (thickest <= context.lineWidth) return;
  context.globalAlpha = pen.opacity * (hasMeans ? BEHIND_MEAN.body : BODY_OPACITY);
  if (climb < STEEP_PX * body.count) context.fill();
  else fillUpright(context, body, x, y);
  context.globalAlpha = pen.opacity;
  if (hasMeans) paintMeans(context, body, x, y);
}

/** A line through the means, never across a column that has none. */
function paintMeans(context: CanvasRenderingContext2D, { pairs, means, count, first }: Columns, x: Linear, y: Linear): void {
  let run = false;
  context.beginPath();
  for (let k = 0; k < count; k += 1) {
    const share = means?.[k] ?? MEAN_UNKNOWN;
    const low = pairs[2 * k] ?? NaN;
    if (share === MEAN_UNKNOWN || low !== low) {
      run = false;
      continue;
    }
    const value = low + ((pairs[2 * k + 1] ?? low) - low) * (share / MEAN_STEPS);
    const px = x.at + (first + k) * x.slope;
    const py = y.at + (value - y.base) * y.slope;
    if (run) context.lineTo(px, py);
    else context.moveTo(px, py);
    run = true;
  }
  context.stroke();
}

/** A polygon is filled line by line, which is slow where its edge goes up and down: then by columns. */
function fillUpright(context: CanvasRenderingContext2D, body: Columns, x: Linear, y: Linear): void {
  const { pairs, count, first } = body;
  let left = Math.round(x.at + (first - 0.5) * x.slope);
  for (let k = 0; k < count; k += 1) {
    const right = Math.round(x.at + (first + k + 0.5) * x.slope);
    const low = pairs[2 * k] ?? NaN;
    const top = y.at + ((pairs[2 * k + 1] ?? NaN) - y.base) * y.slope;
    if (low === low) context.fillRect(left, top, right - left, y.at + (low - y.base) * y.slope - top);
    left = right;
  }
}

/** Puts every run of columns on the path as a closed outline. */
function outline(context: CanvasRenderingContext2D, body: Columns, x: Linear, y: Linear): Outline {
  const { pairs, count } = body;
  let thickest = 0;
  let climb = 0;
  let before = 0;
  let start = -1;
  context.beginPath();
  for (let k = 0; k <= count; k += 1) {
    const low = k < count ? pairs[2 * k] ?? NaN : NaN;
    if (low === low) {
      const high = pairs[2 * k + 1] ?? low;
      const px = x.at + (body.first + k) * x.slope;
      const py = y.at + (high - y.base) * y.slope;
      thickest = Math.max(thickest, (low - high) * y.slope);
      if (start < 0) {
        start = k;
        context.moveTo(px, py);
      } else {
        climb += Math.abs(py - before);
        context.lineTo(px, py);
      }
      before = py;
    } else if (start >= 0) {
      closeRun(context, body, start, k, x, y);
      start = -1;
    }
  }
  return { thickest, climb };
}

/** Goes back along the smallest values to where the run began. */
function closeRun(context: CanvasRenderingContext2D, body: Columns, start: number, end: number, x: Linear, y: Linear): void {
  for (let k = end - 1; k >= start; k -= 1) {
    const px = x.at + (body.first + k) * x.slope;
    // Half a pixel keeps a flat single column visible.
    context.lineTo(px, y.at + ((body.pairs[2 * k] ?? NaN) - y.base) * y.slope + (end - start === 1 ? 0.5 : 0));
  }
  context.closePath();
}

function paintPoints(context: CanvasRenderingContext2D, body: Points, x: Linear, y: Linear, ratio: number): void {
  const { offsets, values, count } = body;
  const spread = ((offsets[count - 1] ?? 0) - (offsets[0] ?? 0)) * x.slope;
  const dots = spread / Math.max(1, count - 1) > DOT_SPACING_PX * ratio;
  const radius = context.lineWidth * (dots ? 1.4 : 0.6);
  let run = 0;
  context.beginPath();
  for (let i = 0; i < count; i += 1) {
    const value = values[i] ?? NaN;
    if (value !== value) {
      run = 0;
      continue;
    }
    const px = x.at + (offsets[i] ?? 0) * x.slope;
    const py = y.at + (value - y.base) * y.slope;
    if (run === 0) context.moveTo(px, py);
    else context.lineTo(px, py);
    run += 1;
  }
  context.stroke();
  paintDots(context, body, x, y, radius, dots);
}

/** Dots for samples far apart, and for those alone between two holes, which no line would show. */
function paintDots(context: CanvasRenderingContext2D, body: Points, x: Linear, y: Linear, radius: number, every: boolean): void {
  const { offsets, values, count } = body;
  context.beginPath();
  for (let i = 0; i < count; i += 1) {
    const value = values[i] ?? NaN;
    if (value !== value) continue;
    const alone = isNaN(values[i - 1] ?? NaN) && isNaN(values[i + 1] ?? NaN);
    if (!every && !alone) continue;
    const px = x.at + (offsets[i] ?? 0) * x.slope;
    const py = y.at + (value - y.base) * y.slope;
    context.moveTo(px + radius, py);
    context.arc(px, py, radius, 0, 2 * Math.PI);
  }
  context.fill();
}
