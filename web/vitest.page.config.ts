/**
 * Runs the page in headless Chromium (`npm run test:page`).
 *
 * What a test needs it starts: the fake server of `dev/fake-server.mjs`, or the command `tallycast`, which
 * `TALLYCAST_BIN` names and `cargo build -p tallycast-cli` makes.
 * One file after the other: a browser and a server share two cores with whatever else runs.
 */
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/page/**/*.test.ts'],
    globalSetup: ['test/page/setup.ts'],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
