// A page of the console is a script, which cannot be loaded while the server is down, and which is
// gone when the server has a new version. Browsers remember that a script could not be loaded, so
// the whole page is reloaded.
import { retryPause } from '../api/problem';

const key = 'steward.reloaded';
// apart is how long two reloads are apart at least, in milliseconds: a page that stays broken says
// so.
const apart = 60_000;

// reloadWhenReachable waits until the server answers and reloads the page.
export async function reloadWhenReachable(left: AbortSignal) {
  for (let n = 0; !(await isReachable()); n++)
    await new Promise((resolve) => setTimeout(resolve, retryPause(n)));
  if (left.aborted || Date.now() - Number(sessionStorage.getItem(key)) < apart) return;
  sessionStorage.setItem(key, String(Date.now()));
  location.reload();
}

async function isReachable(): Promise<boolean> {
  try {
    return (await fetch('/console/', { cache: 'no-store' })).ok;
  } catch {
    return false;
  }
}
