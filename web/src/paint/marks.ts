/**
 * Draws the marks of a plot into a picture, as they look on the page: runs as full lines with their ids at the bottom, changes of apps
 * as broken lines with a flag and the name of the app at the top.
 */
import type { Box } from '../chart';
import type { PictureMark } from '../model/picture-marks';

/** Look of marks. */
export interface MarkStyle {
  readonly ink: string;
  readonly dim: string;
  readonly accent: string;
  readonly font: string;
}

const LABEL_PX = 11;
const PAD_PX = 4;
const FLAG_PX = 5;
const DASH_PX = [4, 3];
/** Width of the pale ground of a line. */
const HALO_PX = 3;
/** What shows through a label or beside a line is pale. */
const PAPER = 'rgb(255 255 255 / 0.8)';

/** Draws marks over the data; lines first, so that no line crosses a label. */
export function paintMarks(context: CanvasRenderingContext2D, marks: readonly PictureMark[], box: Box, style: MarkStyle): void {
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.width, box.height);
  context.clip();
  context.lineWidth = 1;
  for (const mark of marks) paintLine(context, mark, box, style);
  for (const mark of marks) if (mark.label !== '') paintLabel(context, mark, box, style);
  context.restore();
}

function colourOf({ kind }: PictureMark, { ink, dim, accent }: MarkStyle): string {
  return { run: dim, 'chosen-run': ink, change: accent }[kind];
}

function paintLine(context: CanvasRenderingContext2D, mark: PictureMark, { left, top, height }: Box, style: MarkStyle): void {
  const x = left + mark.x;
  // A waterfall is as dark as ink.
  context.fillStyle = PAPER;
  context.fillRect(x - HALO_PX / 2, top, HALO_PX, height);
  context.strokeStyle = colourOf(mark, style);
  context.setLineDash(mark.kind === 'change' ? DASH_PX : []);
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, top + height);
  context.stroke();
  if (mark.kind !== 'change') return;
  context.fillStyle = style.accent;
  context.beginPath();
  context.moveTo(x - FLAG_PX, top);
  context.lineTo(x + FLAG_PX, top);
  context.lineTo(x, top + FLAG_PX);
  context.fill();
}

function paintLabel(context: CanvasRenderingContext2D, mark: PictureMark, { left, top, height }: Box, style: MarkStyle): void {
  context.font = `${mark.kind === 'chosen-run' ? '600 ' : ''}${LABEL_PX}px ${style.font}`;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  const width = context.measureText(mark.label).width + 2 * PAD_PX;
  const x = left + mark.x + (mark.side === 'right' ? 2 : -2 - width);
  const labelHeight = LABEL_PX + PAD_PX;
  const y = mark.kind === 'change' ? top + FLAG_PX : top + height - labelHeight - 2;
  context.fillStyle = PAPER;
  context.fillRect(x, y, width, labelHeight);
  context.fillStyle = colourOf(mark, style);
  context.fillText(mark.label, x + PAD_PX, y + labelHeight / 2);
}
