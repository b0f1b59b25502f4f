// Uploads by presigned URLs, with progress, a few at a time.
import { api, ok } from './client';
import { Problem } from './problem';

// signed returns a URL for an object that works without a session.
export const signed = (bucket: string, key: string, operation: 'download' | 'upload') =>
  ok(api.GET('/storage/presign/{bucket}', { params: { path: { bucket }, query: { key, operation } } }));

// put sends a file. It is XMLHttpRequest, since fetch does not tell how much was sent.
function put(url: string, file: File, signal: AbortSignal, progress: (sent: number) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = (status: number, detail: string) => reject(new Problem({ status, code: status ? '' : 'unreachable', detail }));
    request.open('PUT', url);
    if (file.type) request.setRequestHeader('Content-Type', file.type);
    request.upload.onprogress = (e) => progress(e.loaded);
    request.onload = () => (request.status < 300 ? resolve() : fail(request.status, messageOf(request.responseText)));
    request.onerror = () => fail(0, 'The object storage did not answer.');
    request.onabort = () => reject(new DOMException('cancelled', 'AbortError'));
    signal.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}

// messageOf returns the message of an error of S3.
function messageOf(xml: string): string {
  return /<Message>([^<]*)<\/Message>/.exec(xml)?.[1] ?? 'The object storage refused the upload.';
}

export class Upload {
  sent = $state(0);
  state = $state<'waiting' | 'running' | 'done' | 'failed'>('waiting');
  problem = $state('');
  private abort = new AbortController();
  readonly bucket: string;
  readonly key: string;
  readonly file: File;

  constructor(bucket: string, key: string, file: File) {
    this.bucket = bucket;
    this.key = key;
    this.file = file;
  }

  get share() {
    return this.state === 'done' ? 1 : this.file.size ? this.sent / this.file.size : 0;
  }

  cancel() {
    this.abort.abort();
    if (this.state === 'waiting') this.end('failed', 'Cancelled');
  }

  async run() {
    if (this.state !== 'waiting') return;
    this.state = 'running';
    try {
      const { presigned_url } = await signed(this.bucket, this.key, 'upload');
      this.abort.signal.throwIfAborted();
      await put(presigned_url, this.file, this.abort.signal, (sent) => (this.sent = sent));
      this.end('done');
    } catch (thrown) {
      this.end('failed', thrown instanceof DOMException ? 'Cancelled' : thrown instanceof Problem ? thrown.detail : String(thrown));
    }
  }

  private end(state: 'done' | 'failed', problem = '') {
    this.state = state;
    this.problem = problem;
  }
}

const parallel = 3;

// Uploads is the list that a page shows.
export class Uploads {
  all = $state.raw<Upload[]>([]);
  private running = 0;
  private finished: () => void;

  constructor(finished: () => void) {
    this.finished = finished;
  }

  get busy() {
    return this.all.some((u) => u.state === 'waiting' || u.state === 'running');
  }

  add(bucket: string, prefix: string, files: { path: string; file: File }[]) {
    this.all = [...this.all, ...files.map(({ path, file }) => new Upload(bucket, prefix + path, file))];
    this.fill();
  }

  again(u: Upload) {
    this.all = this.all.map((one) => (one === u ? new Upload(u.bucket, u.key, u.file) : one));
    this.fill();
  }

  clear() {
    this.all = this.all.filter((u) => u.state === 'waiting' || u.state === 'running');
  }

  private fill() {
    while (this.running < parallel) {
      const next = this.all.find((u) => u.state === 'waiting');
      if (!next) return;
      this.running++;
      next.run().then(() => {
        this.running--;
        this.finished();
        this.fill();
      });
    }
  }
}

// dropped returns the files of a drop, those in directories with their path.
export async function dropped(data: DataTransfer): Promise<{ path: string; file: File }[]> {
  const entries = [...data.items].map((item) => item.webkitGetAsEntry()).filter((e) => e !== null);
  return (await Promise.all(entries.map((e) => filesOf(e, '')))).flat();
}

async function filesOf(entry: FileSystemEntry, above: string): Promise<{ path: string; file: File }[]> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: { path: string; file: File }[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    for (const child of some) found.push(...(await filesOf(child, path + '/')));
  }
}
