/**
 * Pointer, wheel and touch gestures on a plot: hover, drag to pan, wheel and pinch to zoom, double tap.
 *
 * Reports pixels and shares of the width; what they mean in time is the caller's business.
 */

/** Attribute of elements on a plot that have gestures of their own. */
export const OWN_GESTURES = 'data-own-gestures';

/** Receiver of the events. */
export interface GestureListener {
  /** The pointer is over the plot at `x`, `y` (CSS pixels from the data's corner), or gone. */
  onHover(at: { readonly x: number; readonly y: number } | null): void;
  /** The plot was dragged right by `dx` pixels. */
  onPan(dx: number): void;
  /** Zoom by `factor` around `share` of the width. */
  onZoom(factor: number, share: number): void;
  onDoubleTap(): void;
}

/** Rectangle of the data within the element. */
export interface Frame {
  readonly left: number;
  readonly top: number;
  readonly width: number;
}

/** A pointer that moved less than this was a tap. */
const SLOP_PX = 4;
/** One notch of a common wheel (100 units) zooms by a factor of about 1.2. */
const WHEEL_RATE = 0.0018;
/** Browsers report pinches on a touchpad as small wheel turns with `ctrlKey`. */
const PINCH_RATE = 0.012;
const LINE_PX = 16;

/** Listens on `element` for its lifetime. */
export function listenGestures(element: HTMLElement, frame: () => Frame, listener: GestureListener): void {
  const pointers = new Map<number, { x: number; y: number }>();
  let moved = 0;

  const place = (event: PointerEvent | WheelEvent): { x: number; y: number } => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left - frame().left, y: event.clientY - box.top - frame().top };
  };
  const share = (x: number): number => x / Math.max(1, frame().width);
  const isElsewhere = ({ target }: Event): boolean => target instanceof Element && target.closest(`[${OWN_GESTURES}]`) !== null;

  element.addEventListener('pointerdown', (event) => {
    if (event.button !== 0 || isElsewhere(event)) return;
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) moved = 0;
  });

  element.addEventListener('pointermove', (event) => {
    const last = pointers.get(event.pointerId);
    const at = place(event);
    if (last === undefined) {
      if (pointers.size === 0) listener.onHover(isElsewhere(event) ? null : at);
      return;
    }
    pointers.set(event.pointerId, at);
    if (pointers.size === 1) dragOne(event, last, at);
    else if (pointers.size === 2) pinch(event.pointerId, last, at);
  });

  function dragOne(event: PointerEvent, last: { x: number }, at: { x: number; y: number }): void {
    moved += Math.abs(at.x - last.x);
    if (moved < SLOP_PX) {
      pointers.set(event.pointerId, { x: last.x, y: at.y });
      return;
    }
    if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
    element.dataset['dragging'] = '';
    listener.onHover(null);
    listener.onPan(at.x - last.x);
  }

  function pinch(id: number, last: { x: number }, at: { x: number }): void {
    const other = [...pointers].find(([each]) => each !== id)?.[1];
    if (other === undefined) return;
    moved = SLOP_PX;
    const [before, after] = [Math.abs(last.x - other.x), Math.abs(at.x - other.x)];
    if (before > 8 && after > 8) listener.onZoom(before / after, share((at.x + other.x) / 2));
    listener.onPan((at.x - last.x) / 2);
  }

  const release = (event: PointerEvent): void => {
    const tapped = pointers.delete(event.pointerId) && moved < SLOP_PX;
    delete element.dataset['dragging'];
    if (tapped && event.type === 'pointerup') listener.onHover(place(event));
  };
  element.addEventListener('pointerup', release);
  element.addEventListener('pointercancel', release);
  element.addEventListener('pointerleave', (event) => {
    if (!pointers.has(event.pointerId) && event.pointerType === 'mouse') listener.onHover(null);
  });
  element.addEventListener('dblclick', (event) => { if (!isElsewhere(event)) listener.onDoubleTap(); });

  element.addEventListener('wheel', (event) => {
    event.preventDefault();
    const unit = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? LINE_PX : 1;
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      listener.onPan(-sideways * unit);
      return;
    }
    const rate = event.ctrlKey ? PINCH_RATE : WHEEL_RATE;
    listener.onZoom(Math.exp(event.deltaY * unit * rate), share(place(event).x));
  }, { passive: false });
}
