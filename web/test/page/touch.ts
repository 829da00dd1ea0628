/**
 * Fingers on the page: one that drags, two that pinch.
 */
import type { CDPSession, Page } from 'playwright-core';

interface Point {
  readonly x: number;
  readonly y: number;
}

/** Steps of a movement: enough for the page to follow it as it follows a finger. */
const STEPS = 6;

/** Moves fingers from their first places to their last, all at once. */
export async function swipe(page: Page, fingers: readonly { readonly from: Point; readonly to: Point }[]): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const at = (share: number): Point[] => fingers.map(({ from, to }) => ({ x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share }));
  await touch(session, 'touchStart', at(0));
  for (let step = 1; step <= STEPS; step += 1) await touch(session, 'touchMove', at(step / STEPS));
  await touch(session, 'touchEnd', []);
  await session.detach();
}

function touch(session: CDPSession, type: 'touchStart' | 'touchMove' | 'touchEnd', points: readonly Point[]): Promise<unknown> {
  return session.send('Input.dispatchTouchEvent', { type, touchPoints: points.map((point, id) => ({ ...point, id })) });
}
