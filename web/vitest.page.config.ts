/**
 * Runs the page in headless Chromium (`npm run test:page`).
 *
 * What a test needs it starts: the fake server of `dev/fake-server.mjs`, or the command `tallycast`, which
 * `TALLYCAST_BIN` names and `cargo build -p tallycast-cli` makes.
 * First the drawing is measured, alone. Then two files at a time run side by side: each has its own browser, servers and bus, and
 * spends most of its time waiting for samples to come and losses to settle.
 */
import { defineConfig } from 'vitest/config';

/** Watchdogs: what reaches one has failed, on a machine with other work, too. */
const PATIENCE = { testTimeout: 240_000, hookTimeout: 240_000 };
const MEASURED = 'test/page/speed.test.ts';

export default defineConfig({
  test: {
    minWorkers: 1,
    maxWorkers: 2,
    projects: [
      { test: { name: 'drawing', include: [MEASURED], globalSetup: ['test/page/harness/setup.ts'], sequence: { groupOrder: 0 }, ...PATIENCE } },
      { test: { name: 'page', include: ['test/page/*.test.ts'], exclude: [MEASURED], globalSetup: ['test/page/setup.ts'], sequence: { groupOrder: 1 }, ...PATIENCE } },
    ],
  },
});
