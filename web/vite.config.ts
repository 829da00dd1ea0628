/**
 * Builds the page into `dist`, which the monitor embeds, and runs the unit tests.
 *
 * Every asset is a file of its own with a hash in its name and nothing is inlined, because the server's
 * content security policy allows scripts and styles from itself only.
 */
import { defineConfig } from 'vitest/config';

/** Where `npm run dev` finds a server that speaks the page's protocol. */
const API = process.env['TALLYCAST_MONITOR'] ?? 'http://127.0.0.1:7480';

export default defineConfig({
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    host: '127.0.0.1',
    proxy: { '/api': { target: API, ws: true } },
  },
  test: {
    include: ['test/{wire,model,style}/**/*.test.ts'],
  },
});
