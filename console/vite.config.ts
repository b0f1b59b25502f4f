import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

// compress writes each file of the build once more with gzip and with brotli, beside the plain one.
function compress(): Plugin {
  let dir = '';
  return {
    name: 'compress',
    apply: 'build',
    configResolved(config) {
      dir = config.build.outDir;
    },
    closeBundle() {
      for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
        const path = join(dir, name);
        if (!/\.(js|css|html|svg)$/.test(name) || !statSync(path).isFile()) continue;
        const plain = readFileSync(path);
        writeFileSync(path + '.gz', gzipSync(plain, { level: 9 }));
        writeFileSync(path + '.br', brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }));
      }
    },
  };
}

export default defineConfig({
  base: '/console/',
  plugins: [svelte(), compress()],
  build: {
    outDir: process.env.CONSOLE_OUT ?? '../internal/console/dist',
    emptyOutDir: true,
    target: 'es2022',
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'], // they know light-dark()
    assetsInlineLimit: 0, // the policy of the pages allows no data: URLs
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 400,
  },
  // `npm run dev` with a server on the default port. Sign in there first.
  server: { proxy: { '/console/api': 'http://127.0.0.1:8080', '/console/sign-in': 'http://127.0.0.1:8080' } },
});
