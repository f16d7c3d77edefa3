// k6 shares one copy between its users; here each has its own, frozen as k6's is.
export class SharedArray {
  constructor(_name, make) {
    return Object.freeze(make().map((item) => item));
  }
}
