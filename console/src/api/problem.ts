// A Problem is an error of the API (RFC 9457), or a request that got no response.
export class Problem extends Error {
  status: number;
  code: string;
  detail: string;
  requestId: string;
  errors: { location: string; message: string }[];
  retryAfter: number;

  constructor(fields: Partial<Problem> & { status: number }) {
    super(fields.detail ?? 'request failed');
    this.status = fields.status;
    this.code = fields.code ?? '';
    this.detail = fields.detail ?? '';
    this.requestId = fields.requestId ?? '';
    this.errors = fields.errors ?? [];
    this.retryAfter = fields.retryAfter ?? 0;
  }

  // field returns what is wrong with a field of the body, such as "url" or "config.url".
  field(name: string): string {
    return (
      this.errors.find((e) => e.location === 'body.' + name || e.location === name)?.message ?? ''
    );
  }
}

// problemOf returns the problem in the response to a request that failed.
export function problemOf(body: unknown, response: Response): Problem {
  const fields = (body && typeof body === 'object' ? body : {}) as Record<string, unknown>;
  return new Problem({
    status: response.status,
    code: typeof fields.code === 'string' ? fields.code : '',
    detail: typeof fields.detail === 'string' ? fields.detail : response.statusText,
    requestId: response.headers.get('X-Request-Id') ?? '',
    errors: Array.isArray(fields.errors) ? fields.errors : [],
    retryAfter: Number(response.headers.get('Retry-After') ?? 0),
  });
}

// asProblem returns what was thrown as a problem. A request that is aborted is none: it is thrown
// again.
export function asProblem(thrown: unknown): Problem {
  if (thrown instanceof Problem) return thrown;
  if (thrown instanceof TypeError && /fetch|network|load failed/i.test(thrown.message)) {
    return new Problem({ status: 0, code: 'unreachable', detail: 'The server did not answer.' });
  }
  return new Problem({
    status: 0,
    code: 'client',
    detail: thrown instanceof Error ? thrown.message : String(thrown),
  });
}

// isTemporary reports whether the same request may succeed later: the server is restarting,
// overloaded, or cannot be reached.
export function isTemporary(p: Problem): boolean {
  return p.code === 'unreachable' || p.status >= 500 || p.status === 429;
}

// retryPause returns how long to wait before a request is repeated for the nth time, from 0 on, in
// milliseconds. It is random, so that the pages of a server that comes back do not ask all at once.
export function retryPause(n: number, retryAfter = 0): number {
  const pause = Math.min(500 * 2 ** n, 15_000);
  return Math.max(retryAfter * 1000, pause * (0.75 + Math.random() / 2));
}

// titleOf returns what happened, in a few words.
export function titleOf(p: Problem): string {
  switch (p.code) {
    case 'unauthorized':
      return 'You are signed out';
    case 'forbidden':
      return 'You may not do this';
    case 'reauthentication_required':
      return 'A new sign-in is needed';
    case 'not_found':
      return 'Not found';
    case 'conflict':
      return 'This conflicts with what is there';
    case 'precondition_failed':
      return 'Somebody else has changed this';
    case 'invalid':
    case 'malformed':
      return 'Something in the form is not right';
    case 'too_large':
      return 'This is too large';
    case 'rate_limited':
      return 'Too many requests';
    case 'unavailable':
      return 'The server is busy';
    case 'unreachable':
      return 'The server cannot be reached';
  }
  return p.status >= 500 ? 'The server failed' : 'This did not work';
}

// adviceOf returns what to do about a problem.
export function adviceOf(p: Problem): string {
  switch (p.code) {
    case 'unauthorized':
      return 'Sign in again. What you have entered stays here.';
    case 'forbidden':
      return 'Ask an owner or admin of the organization for the role that is needed, or to do it for you.';
    case 'reauthentication_required':
      return 'Try again and sign in. What you have entered stays here.';
    case 'not_found':
      return 'It may have been deleted, or it belongs to another organization.';
    case 'conflict':
      return 'Look at the current state, then try again.';
    case 'precondition_failed':
      return 'Reload to see the change, then decide whether yours is still right.';
    case 'invalid':
    case 'malformed':
      return 'Correct what is named here and send it again.';
    case 'too_large':
      return 'Send less at once, or use the API.';
    case 'rate_limited':
    case 'unavailable':
      return p.retryAfter > 0 ? `Try again in ${p.retryAfter} s.` : 'Try again in a moment.';
    case 'unreachable':
      return 'Check your connection, and whether Steward is running. Then try again.';
  }
  return p.status >= 500
    ? 'Try again. If it stays, give the request id to whoever runs this server: it is in the log.'
    : '';
}
