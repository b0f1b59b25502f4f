// A receipt as a command of a POSIX shell that sends the same request again.
import type { Schemas } from '../../api/client';
import { shellQuote } from '../../lib/format';

// notCopied are headers of the connection, not of the request: curl sets its own.
const notCopied = new Set([
  'host',
  'content-length',
  'accept-encoding',
  'connection',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'expect',
]);
// A program gets at most 128 KiB as one argument on Linux.
const longestArgument = 100 * 1024;

export function curlOf(r: Schemas['WebhookReceipt'], body: Uint8Array): string {
  const text = textOf(body);
  const inline = text !== undefined && body.length <= longestArgument;
  const parts = [
    `curl ${methodOf(r.method)} ` +
      `${/[[\]{}]/.test(r.query) ? '-g ' : ''}"$WEBHOOK_URL"${r.query ? shellQuote('?' + r.query) : ''}`,
  ];
  for (const [name, value] of Object.entries(r.headers)) {
    if (!notCopied.has(name))
      parts.push(`-H ${shellQuote(value ? `${name}: ${value}` : `${name};`)}`); // "name:" would remove it
  }
  if (body.length && !('content-type' in r.headers)) parts.push(`-H 'content-type:'`); // curl would add one
  if (body.length) parts.push(inline ? `--data-raw ${shellQuote(text)}` : '--data-binary @-');
  const command = parts.join(' \\\n  ');
  if (!body.length || inline) return command;
  return (
    `${text === undefined ? `printf %s ${base64(body)} | base64 -d` : `printf %s ${shellQuote(text)}`} ` +
    `| ${command}`
  );
}

// A request with HEAD must not wait for a body.
const methodOf = (method: string) => (method === 'HEAD' ? '--head' : '-X ' + shellQuote(method));

// textOf returns a body as text that survives being pasted into a terminal, or undefined.
function textOf(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    return /[\0-\x08\x0b-\x1f\x7f]/.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function base64(body: Uint8Array): string {
  let binary = '';
  for (let i = 0; i < body.length; i += 8192)
    binary += String.fromCharCode(...body.subarray(i, i + 8192));
  return btoa(binary);
}
