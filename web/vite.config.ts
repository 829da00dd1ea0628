/**
 * Builds the page into `dist`, which the monitor embeds, and runs the unit tests.
 *
 * Every asset is a file of its own with a hash in its name and nothing is inlined, because the server's
 * content security policy allows scripts and styles from itself only.
 */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';
import { htmlOf } from './src/guide/html';

/** Where `npm run dev` finds a server that speaks the page's protocol. */
const API = process.env['TALLYCAST_MONITOR'] ?? 'http://127.0.0.1:7480';

/** The guide to losses, of which `guide.html` is made and the page takes what it says of a stage. */
const GUIDE = fileURLToPath(new URL('../docs/guide/losses.md', import.meta.url));

/** Puts the guide into its page. */
const guide: Plugin = {
  name: 'guide',
  transformIndexHtml: {
    order: 'pre',
    handler: (html, { filename }) => (filename.endsWith('guide.html')
      ? html.replace('<!-- docs/guide/losses.md -->', () => htmlOf(readFileSync(GUIDE, 'utf8'))) : html),
  },
};

export default defineConfig({
  plugins: [guide],
  build: {
    rollupOptions: { input: ['index.html', 'guide.html'] },
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  server: {
    host: '127.0.0.1',
    fs: { allow: ['.', GUIDE] },
    proxy: { '/api': { target: API, ws: true } },
  },
  test: {
    include: ['test/{wire,model,style}/**/*.test.ts'],
  },
});
