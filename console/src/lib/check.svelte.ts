import { asProblem, isTemporary, type Problem } from '../api/problem';

// Check is what the server says about a form while it is filled in.
export class Check<T> {
  // problem is what is wrong with the last body that the server has checked, if anything.
  problem = $state.raw<Problem>();
  checked = $state.raw<T>();

  // field returns what is wrong with a field.
  field(name: string): string {
    return this.problem?.field(name) ?? '';
  }
}

// check has the server check a body, a moment after it was last changed. dryRun sends it such that
// nothing is stored. Call it while a component is initialized.
export function check<T>(
  body: () => T,
  dryRun: (body: T, signal: AbortSignal) => Promise<unknown>,
): Check<T> {
  const check = new Check<T>();
  $effect(() => {
    const asked = body();
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const problem = await problemOf(dryRun(asked, abort.signal));
      if (abort.signal.aborted || (problem && saysNothing(problem))) return;
      check.problem = problem;
      check.checked = asked;
    }, 250);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  });
  return check;
}

// saysNothing reports whether a problem is not one of the body.
function saysNothing(p: Problem): boolean {
  return isTemporary(p) || p.status === 401 || p.code === 'reauthentication_required';
}

async function problemOf(answer: Promise<unknown>): Promise<Problem | undefined> {
  try {
    await answer;
  } catch (thrown) {
    return asProblem(thrown);
  }
}
