// onnx_run.js - runs an ONNX file with onnxruntime-node and compares its output with the right one.
//
//     SHAPE=28x28x1 CLASSES=10 node onnx_run.js RUNTIME MODEL INPUT EXPECTED
//
// RUNTIME is the folder of the npm package. INPUT is floats (.f32), an IDX file of bytes, or rows
// (.libsvm, dense here). EXPECTED is floats (.f32) or the CSV of 'yoke predict'. The program prints
// the largest difference; exit status 1 if it is more than 1e-5.
'use strict';
const fs = require('fs');
const [runtime, model, input, expected] = process.argv.slice(2);
const ort = require(runtime);

function floats(file) {
    const b = fs.readFileSync(file);
    return new Float32Array(b.buffer.slice(b.byteOffset, b.byteOffset + b.length));
}

// Probabilities, row after row.
function answers(file) {
    if (file.endsWith('.f32'))
        return floats(file);
    const rows = fs.readFileSync(file, 'utf8').trim().split('\n').slice(1);
    return Float32Array.from(rows.flatMap(row => row.split(',').slice(2).map(Number)));
}

function inputs(file, features) {
    if (file.endsWith('.f32'))
        return floats(file);
    if (!file.endsWith('.libsvm')) {
        const b = fs.readFileSync(file);
        return Float32Array.from(b.subarray(4 + 4 * b[3]));
    }
    const rows = fs.readFileSync(file, 'utf8').trim().split('\n');
    const dense = new Float32Array(rows.length * features);
    rows.forEach((row, r) => row.trim().split(/\s+/).slice(1).forEach(entry => {
        const [key, value] = entry.split(':').map(Number);
        dense[r * features + key] += value;
    }));
    return dense;
}

async function main() {
    const want = answers(expected);
    const session = await ort.InferenceSession.create(model);
    const name = session.inputNames[0], shape = process.env.SHAPE.split('x').map(Number);
    const size = shape.reduce((a, b) => a * b), all = inputs(input, size), classes = Number(process.env.CLASSES);
    const rows = want.length / classes;
    if (rows < 1 || all.length < rows * size)
        throw new Error(`${all.length} numbers in, ${want.length} expected out: that is no whole number of rows`);
    let most = 0;
    for (let at = 0; at < rows; at += 100) {
        const n = Math.min(100, rows - at);
        const x = new ort.Tensor('float32', all.subarray(at * size, (at + n) * size), [n, ...shape]);
        const y = (await session.run({[name]: x})).probabilities;
        if (y.dims.length !== 2 || y.dims[0] !== n || y.dims[1] !== classes)
            throw new Error(`the answer has shape ${y.dims}`);
        y.data.forEach((v, i) => {
            const off = Math.abs(v - want[at * classes + i]);
            most = off <= most ? most : off; // and NaN stays
        });
    }
    console.log(`${rows} rows, largest difference ${most}`);
    process.exitCode = most <= 1e-5 ? 0 : 1;
}
main().catch(e => { console.error(e.message); process.exitCode = 1; });
