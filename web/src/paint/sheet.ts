/**
 * A picture of plots as a file: charts in ink on white, each under its title, units and legend, with the time below.
 */
import type { PictureMark } from '../model/picture-marks';
import { FOOT, LINE, MARGIN, sheetOf } from '../model/sheet';
import { paintMarks, type MarkStyle } from './marks';

/** One plot of a picture, as drawn at this moment. */
export interface PlotPicture {
  /** Place of the chart on the page, in CSS pixels. */
  readonly box: { readonly left: number; readonly top: number; readonly width: number; readonly height: number };
  readonly canvas: HTMLCanvasElement;
  readonly title: string;
  /** How it is thinned, and what is missing in it. */
  readonly note: string;
  /** Units of the left and the right axis. */
  readonly units: readonly string[];
  readonly legend: readonly { readonly label: string; readonly colour: string }[];
  readonly marks: readonly PictureMark[];
  /** Rectangle of the data in the chart, in CSS pixels. */
  readonly data: { readonly left: number; readonly top: number; readonly width: number; readonly height: number };
}

/** Look of a picture. */
export interface SheetStyle extends MarkStyle {
  /** Device pixels of a CSS pixel. */
  readonly ratio: number;
}

const TITLE_PX = 14;
const TEXT_PX = 12;
const SWATCH_PX = 12;
const SWATCH_GAP = 6;

/** Draws a picture with lines of text below its plots. */
export function paintSheet(pictures: readonly PlotPicture[], foot: readonly string[], style: SheetStyle): HTMLCanvasElement {
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d');
  if (context === null) throw new Error('this browser draws no pictures');
  const text = `${TEXT_PX}px ${style.font}`;
  context.font = text;
  const sheet = sheetOf(pictures.map(({ box, legend }) => ({
    left: box.left, top: box.top, width: box.width, chartHeight: box.height,
    entries: legend.map(({ label }) => SWATCH_PX + SWATCH_GAP + context.measureText(label).width),
  })), foot.length);
  canvas.width = Math.round(sheet.width * style.ratio);
  canvas.height = Math.round(sheet.height * style.ratio);
  context.scale(style.ratio, style.ratio);
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, sheet.width, sheet.height);
  context.textBaseline = 'top';
  pictures.forEach((picture, i) => {
    const place = sheet.plots[i];
    if (place === undefined) return;
    const { box, legend } = picture;
    context.font = `600 ${TITLE_PX}px ${style.font}`;
    context.fillStyle = style.ink;
    context.fillText(picture.title, place.left, place.titleTop, box.width);
    const titled = Math.min(box.width, context.measureText(picture.title).width + MARGIN);
    context.font = text;
    context.fillStyle = style.dim;
    if (box.width - titled > TEXT_PX) context.fillText(picture.note, place.left + titled, place.titleTop + TITLE_PX - TEXT_PX, box.width - titled);
    legend.forEach(({ label, colour }, entry) => {
      const at = place.entries[entry];
      if (at === undefined) return;
      context.fillStyle = colour;
      context.fillRect(at.x, at.y + TEXT_PX / 2 - 1, SWATCH_PX, 3);
      context.fillStyle = style.ink;
      context.fillText(label, at.x + SWATCH_PX + SWATCH_GAP, at.y);
    });
    context.drawImage(picture.canvas, place.left, place.chartTop, box.width, box.height);
    const { data } = picture;
    paintMarks(context, picture.marks, { ...data, left: place.left + data.left, top: place.chartTop + data.top }, style);
    context.fillStyle = style.dim;
    context.fillText(picture.units[0] ?? '', place.left, place.chartTop);
    context.textAlign = 'right';
    context.fillText(picture.units[1] ?? '', place.left + box.width, place.chartTop);
    context.textAlign = 'left';
  });
  context.fillStyle = style.dim;
  foot.forEach((words, line) => context.fillText(words, MARGIN, sheet.height - FOOT + (FOOT - LINE) / 2 - (foot.length - 1 - line) * LINE, sheet.width - 2 * MARGIN));
  return canvas;
}
