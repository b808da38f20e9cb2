import { defineConfig } from 'vite';

// `npm run dev` shows the sources against a dashboard process that runs on this machine.
const server = process.env.STOWAGE_DASHBOARD ?? 'http://127.0.0.1:8080';

export default defineConfig({
  // Relative addresses: the page also works below a path of a proxy.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: '../static',
    emptyOutDir: true,
    target: 'es2022',
    // The policy of the page permits no data: scripts and no inline styles, so nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        entryFileNames: 'assets/[name]-[hash].js',
        assetFileNames: 'assets/[name]-[hash][extname]',
      },
    },
  },
  server: { proxy: { '/api': { target: server, changeOrigin: false } } },
});
