/**
 * Pixels of pictures that a page made.
 */
import type { JSHandle, Page } from 'playwright-core';

/** Decodes PNGs on a page without the rules of this one, and returns what `look` reads of their pixels there. */
export async function withPixels<Result>(page: Page, pictures: readonly Buffer[], look: (blank: Page, images: JSHandle<ImageData[]>) => Promise<Result>): Promise<Result> {
  const blank = await page.context().newPage();
  const images = await blank.evaluateHandle(async (data) => Promise.all(data.map(async (png) => {
    const image = new Image();
    image.src = `data:image/png;base64,${png}`;
    await image.decode();
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext('2d') as CanvasRenderingContext2D;
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  })), pictures.map((picture) => picture.toString('base64')));
  const result = await look(blank, images);
  await blank.close();
  return result;
}
