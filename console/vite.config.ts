import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/console/',
  plugins: [svelte()],
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
  server: {
    proxy: { '/console/api': 'http://127.0.0.1:8080', '/console/sign-in': 'http://127.0.0.1:8080' },
  },
});
