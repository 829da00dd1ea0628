/**
 * Runs the page in headless Chromium (`npm run test:page`).
 *
 * With `BASE_URL` the tests drive that server; without it they start the fake one of `dev/fake-server.mjs`.
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
