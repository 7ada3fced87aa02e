import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

export { uPlot }
