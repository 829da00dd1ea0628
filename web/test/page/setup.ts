/**
 * Builds the page, once before all tests that open it: every server serves it from `dist`.
 */
import { build } from 'vite';

export default async function setup(): Promise<void> {
  await build({ logLevel: 'warn' });
}
