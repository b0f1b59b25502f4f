import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vitest/config';

export default defineConfig({
  plugins: [svelte()],
  resolve: { conditions: ['browser'] }, // otherwise Svelte is the one for servers
  test: {
    include: ['src/**/*.test.ts'],
    environment: 'happy-dom',
    environmentOptions: { happyDOM: { url: 'https://steward.test/console/' } },
    env: { TZ: 'Asia/Kolkata' }, // local times differ from UTC, in all seasons alike
  },
});
