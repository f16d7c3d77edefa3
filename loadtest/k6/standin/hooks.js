// Module hooks: 'k6' and 'k6/…' resolve to this folder's modules, everything else as usual.
export async function resolve(specifier, context, next) {
  if (specifier === 'k6' || specifier.startsWith('k6/')) {
    const name = specifier === 'k6' ? 'k6' : specifier.slice('k6/'.length);
    return { url: new URL(`./modules/${name}.js`, import.meta.url).href, shortCircuit: true };
  }
  return next(specifier, context);
}

// A script is an ES module whatever its folder's package.json says.
export async function load(url, context, next) {
  return next(url, url.endsWith('.js') ? { ...context, format: 'module' } : context);
}
