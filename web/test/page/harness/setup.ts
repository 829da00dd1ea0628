/**
 * Builds the harness that measures the drawing, and serves it.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'vite';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  export interface ProvidedContext {
    harnessUrl: string;
  }
}

const HERE = fileURLToPath(new URL('.', import.meta.url));
const OUT = join(HERE, '../../../node_modules/.cache/tallycast-harness');
const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };

/** Runs once before the drawing is measured; what it returns runs once afterwards. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await build({ configFile: false, root: HERE, base: './', logLevel: 'warn', build: { target: 'es2022', outDir: OUT, emptyOutDir: true } });
  const server = createServer((request, response) => {
    const path = request.url === '/' ? '/index.html' : request.url ?? '/index.html';
    readFile(join(OUT, path)).then(
      (bytes) => response.writeHead(200, { 'content-type': TYPES[extname(path)] ?? 'text/plain' }).end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  project.provide('harnessUrl', `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  return () => new Promise((resolve) => {
    server.closeAllConnections();
    server.close(() => resolve());
  });
}
