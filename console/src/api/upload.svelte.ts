// Uploads by presigned URLs, with progress, a few at a time.
import { api, ok } from './client';
import { Problem } from './problem';

// signed returns a URL for an object that works without a session.
export const signed = (
  bucket: string,
  key: string,
  operation: 'download' | 'upload',
  expiry_seconds?: number,
) =>
  ok(
    api.GET('/storage/presign/{bucket}', {
      params: { path: { bucket }, query: { key, operation, expiry_seconds } },
    }),
  );

// put sends a file. It is XMLHttpRequest, since fetch does not tell how much was sent.
function put(
  url: string,
  file: File,
  signal: AbortSignal,
  progress: (sent: number) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = (status: number, detail: string) =>
      reject(new Problem({ status, code: status ? '' : 'unreachable', detail }));
    request.open('PUT', url);
    if (file.type) request.setRequestHeader('Content-Type', file.type);
    request.upload.onprogress = (e) => progress(e.loaded);
    request.onload = () =>
      request.status < 300 ? resolve() : fail(request.status, messageOf(request.responseText));
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

// tries is how often a file is sent while the storage does not answer or is overloaded.
const tries = 4;
const pause = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(new DOMException('cancelled', 'AbortError'));
    });
  });

export class Upload {
  sent = $state(0);
  // repeat is the number of the try, from the second one on.
  repeat = $state(0);
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
      await this.sendUntilStored();
      this.end('done');
    } catch (thrown) {
      this.end(
        'failed',
        thrown instanceof DOMException
          ? 'Cancelled'
          : thrown instanceof Problem
            ? thrown.detail
            : String(thrown),
      );
    }
  }

  // sendUntilStored sends the file, and again after a while if that may help.
  private async sendUntilStored() {
    for (let n = 1; ; n++) {
      try {
        const { presigned_url } = await signed(this.bucket, this.key, 'upload');
        this.abort.signal.throwIfAborted();
        return await put(presigned_url, this.file, this.abort.signal, (sent) => (this.sent = sent));
      } catch (thrown) {
        const again =
          thrown instanceof Problem &&
          (thrown.status === 0 || thrown.status === 429 || thrown.status >= 500);
        if (!again || n === tries) throw thrown;
        this.sent = 0;
        this.repeat = n + 1;
        await pause(1000 * 2 ** (n - 1), this.abort.signal);
      }
    }
  }

  private end(state: 'done' | 'failed', problem = '') {
    this.state = state;
    this.problem = problem;
  }
}

const parallel = 3;

// Uploads is the list that a page shows. finished is called when files were stored: at once after
// the last one, and now and then before.
export class Uploads {
  all = $state.raw<Upload[]>([]);
  private running = 0;
  private finished: () => void;
  private told = 0;

  constructor(finished: () => void) {
    this.finished = finished;
  }

  get busy() {
    return this.all.some((u) => u.state === 'waiting' || u.state === 'running');
  }
  get failed() {
    return this.all.filter((u) => u.state === 'failed');
  }
  get stored() {
    return this.all.filter((u) => u.state === 'done').length;
  }
  get share() {
    const whole = this.all.reduce((n, u) => n + u.file.size, 0);
    return whole
      ? this.all.reduce((n, u) => n + u.share * u.file.size, 0) / whole
      : this.busy
        ? 0
        : 1;
  }
  // shown are the uploads that are worth a line: those that run, those that failed, and some of the
  // others.
  get shown() {
    const rank = { running: 0, failed: 1, waiting: 2, done: 3 };
    return this.all.toSorted((a, b) => rank[a.state] - rank[b.state]).slice(0, 12);
  }

  add(bucket: string, prefix: string, files: { path: string; file: File }[]) {
    this.all = [
      ...this.all,
      ...files.map(({ path, file }) => new Upload(bucket, prefix + path, file)),
    ];
    this.fill();
  }

  again(these: Upload[]) {
    this.all = this.all.map((u) => (these.includes(u) ? new Upload(u.bucket, u.key, u.file) : u));
    this.fill();
  }

  cancel() {
    for (const u of this.all) if (u.state === 'waiting' || u.state === 'running') u.cancel();
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
        this.fill();
        if (this.running && Date.now() - this.told < 2000) return;
        this.told = Date.now();
        this.finished();
      });
    }
  }
}

// dropped returns the files of a drop, those in directories with their path.
export async function dropped(data: DataTransfer): Promise<{ path: string; file: File }[]> {
  const found = [...data.items].map((item) => {
    const entry = item.webkitGetAsEntry();
    const file = entry ? null : item.getAsFile();
    return entry ? filesOf(entry, '') : file ? [{ path: file.name, file }] : [];
  });
  return (await Promise.all(found)).flat();
}

async function filesOf(
  entry: FileSystemEntry,
  above: string,
): Promise<{ path: string; file: File }[]> {
  const path = above + entry.name;
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) =>
      (entry as FileSystemFileEntry).file(resolve, reject),
    );
    return [{ path, file }];
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: { path: string; file: File }[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
      reader.readEntries(resolve, reject),
    );
    if (!some.length) return found;
    for (const child of some) found.push(...(await filesOf(child, path + '/')));
  }
}
