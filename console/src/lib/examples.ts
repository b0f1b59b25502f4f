// The lines of empty pages that make the first thing of a kind. A test runs all of them.
import { shellQuote } from './format';
import { session } from './session.svelte';

// json writes a body in one line if it is short.
function json(body: object): string {
  const line = JSON.stringify(body, null, 1).replace(/\n */g, ' ');
  return line.length <= 84 ? line : JSON.stringify(body, null, 2).replaceAll('\n', '\n  ');
}

// curl returns the line that sends a request with a JSON body.
export const curl = (method: string, path: string, body: object) =>
  `curl -X ${method} ${location.origin}${path} \\\n` +
  '  -H "Authorization: Bearer $STEWARD_KEY" -H "Content-Type: application/json" \\\n' +
  `  -d ${shellQuote(json(body))}`;

// command returns the same as a call of the command line, for requests that have no command of
// their own.
export const command = (method: string, path: string, body: object) =>
  `steward api ${method} ${path}` +
  Object.entries(body)
    .map(
      ([name, value], i) => `${i % 3 === 0 ? ' \\\n ' : ''} -f ${shellQuote(`${name}=${value}`)}`,
    )
    .join('');

// newResource creates a bucket, database or store.
export const newResource = (type: string, name: string) =>
  curl('POST', `/resource/${session.orgId}/local`, { resources: [{ type, name }] });

// A run of an agent and its judgement, as runtimes report them. A project that is not known is
// registered.
export const startedSession = () => ({
  id: 'session-1',
  orgId: session.orgId,
  projectId: 'support',
  threadId: 'support-1042',
  routeId: 'chat',
  environment: 'production',
  devmode: false,
  method: 'POST',
  url: '/chat',
  trigger: 'api',
});
export const startedRun = () => ({
  id: 'run-1',
  orgId: session.orgId,
  projectId: 'support',
  sessionId: 'session-1',
  evalId: 'politeness',
});
